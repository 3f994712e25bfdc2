"""Stochastic depth."""

import torch
from torch import Generator, Tensor
from torch.nn import functional

from ...random.key import Key, uniform
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..layer import ConfiguredLayer, expect_shape
from ..torch_counterpart import AnyLibrary
from .configs import DropPathConfig


class DropPath(KeepsType, AnyLibrary, ConfiguredLayer, config=DropPathConfig):
    """Zero each item of the batch with probability `prob` in training and scale the rest by 1 / (1 - prob).

    Before the sum of a residual block it leaves the block out for some items (Huang et al. 2016, section 3).

    Torch: -.
    """

    prob: float

    @lift
    def forward(self, x: Tensor, rng: Key | Generator | None = None) -> Tensor:
        """`[batch, ...] -> [batch, ...]`; x itself in evaluation, or if `prob` is 0.

        Args:
            x: floating-point.
            rng: what the items to zero are drawn by: with equal keys they are the same, compiled or not. None draws
                them by torch's global generator.

        Raises:
            ShapeError: x has no dimensions.
        """
        expect_shape(self, x, "batch", "...")
        if not self.training or self.prob == 0:
            return x
        ones = x.new_ones([x.shape[0]] + [1] * (x.ndim - 1))
        if rng is None:
            return x * functional.dropout(ones, self.prob)
        return torch.where(uniform(rng, ones) >= self.prob, x / (1 - self.prob), 0.0)
