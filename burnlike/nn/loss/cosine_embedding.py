"""The loss of angles between vectors."""

import torch
from torch import Tensor, linalg
from torch.nn import functional

from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import GivesLoss
from ..layer import Layer, expect_shape
from .configs import Reduction
from .inputs import expect_equal_shapes, reduced, wide
from .margin_configs import CosineEmbeddingLossConfig

_EPSILON = 1e-8
"""The least norm of a vector."""


class CosineEmbeddingLoss(GivesLoss, Layer):
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1, 0 elsewhere.

    Torch: `nn.CosineEmbeddingLoss`.
    Differs: the reduction is `mean` or `sum`; `forward_no_reduction` has none.
    """

    def __init__(self, config: CosineEmbeddingLossConfig) -> None:
        super().__init__()
        self.margin = config.margin
        self.reduction: Reduction = config.reduction

    @lift
    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """`[batch, size], [batch, size], [batch] -> []`, reduced as the config says.

        Raises:
            ShapeError: the shapes do not fit each other.
        """
        return reduced(self, self.forward_no_reduction(input1, input2, target), self.reduction)

    @lift
    def forward_no_reduction(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """`[batch, size], [batch, size], [batch] -> [batch]`.

        Raises:
            ShapeError: the shapes do not fit each other.
        """
        expect_shape(self, input1, "batch", "size")
        expect_equal_shapes(self, input1, input2, "input2")
        expect_shape(self, target, input1.shape[0], name="target")
        # As functional.cosine_similarity, in half the time: no vector is divided by its norm.
        first, second = wide(input1), wide(input2)
        least = max(_EPSILON**2, torch.finfo(input1.dtype).tiny)  # so that the gradients are finite in half precision
        by_first = linalg.vecdot(first, first).clamp_min(least).rsqrt()
        by_second = linalg.vecdot(second, second).clamp_min(least).rsqrt()
        cosine = (linalg.vecdot(first, second) * by_first * by_second).to(input1.dtype)
        apart = functional.relu(cosine - self.margin).where(target == -1, 0)
        return (1 - cosine).where(target == 1, apart)

    def custom_content(self, content: Content) -> Content:
        return content.add("margin", self.margin).add("reduction", self.reduction.capitalize())
