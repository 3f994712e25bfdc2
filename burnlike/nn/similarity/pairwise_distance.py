"""Pairwise distance."""

from torch import Tensor
from torch.nn import functional

from ...tensor.torch_bridge.torch_function import lift
from ..call_types import ChangesRank
from ..layer import ConfiguredLayer, expect_shape
from .configs import PairwiseDistanceConfig
from .pairs import expect_pair


class PairwiseDistance(ChangesRank, ConfiguredLayer, config=PairwiseDistanceConfig):
    """The p-norm of x1 - x2 + eps along the last dimension.

    Torch: `nn.PairwiseDistance`.
    Differs: no `keepdim`.
    """

    p: float
    eps: float

    @lift
    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """`[..., size], [..., size] -> [...]`.

        Raises:
            ShapeError: the inputs do not fit each other, or have no dimension.
        """
        expect_shape(self, x1, "...", "size", name="x1")
        expect_pair(self, x1, x2)
        return functional.pairwise_distance(x1, x2, self.p, self.eps)
