"""Cosine similarity."""

from torch import Tensor
from torch.nn import functional

from ...tensor.torch_bridge.torch_function import lift
from ..call_types import ChangesRank
from ..layer import ConfiguredLayer, shape_error
from .configs import CosineSimilarityConfig
from .pairs import expect_pair


class CosineSimilarity(ChangesRank, ConfiguredLayer, config=CosineSimilarityConfig):
    """The sum of x1 / max(|x1|, eps) * x2 / max(|x2|, eps) along the dimension `dim`.

    Torch: `nn.CosineSimilarity`.
    """

    dim: int
    eps: float

    @lift
    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """`[batch, size], [batch, size] -> [batch]`, or any other shape, without the dimension `dim`.

        Raises:
            ShapeError: the inputs do not fit each other, or have no dimension `dim`.
        """
        expect_pair(self, x1, x2)
        if not -x1.ndim <= self.dim < x1.ndim:
            raise shape_error(self, f"an input with the dimension {self.dim}", list(x1.shape), name="x1")
        return functional.cosine_similarity(x1, x2, self.dim, self.eps)
