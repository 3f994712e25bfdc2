"""Pairwise distance."""

from torch import Tensor
from torch.nn import functional

from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import ChangesRank
from ..layer import Layer, expect_shape
from .configs import PairwiseDistanceConfig
from .pairs import expect_pair


class PairwiseDistance(ChangesRank, Layer):
    """The p-norm of x1 - x2 + eps along the last dimension.

    Torch: `nn.PairwiseDistance`.
    Differs: no `keepdim`.
    """

    def __init__(self, config: PairwiseDistanceConfig) -> None:
        super().__init__()
        self.p = config.p
        self.eps = config.eps

    @lift
    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """`[..., size], [..., size] -> [...]`.

        Raises:
            ShapeError: the inputs do not fit each other, or have no dimension.
        """
        expect_shape(self, x1, "...", "size", name="x1")
        expect_pair(self, x1, x2)
        return functional.pairwise_distance(x1, x2, self.p, self.eps)

    def custom_content(self, content: Content) -> Content:
        return content.add("p", self.p).add("eps", self.eps)
