"""Dropout."""

import torch
from torch import Generator, Tensor
from torch.nn import functional

from ...random.key import Key, uniform
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..layer import ConfiguredLayer, torch_name
from .configs import DropoutConfig


class Dropout(KeepsType, ConfiguredLayer, config=DropoutConfig):
    """Zero each value with probability `prob` in training and scale the rest by 1 / (1 - prob).

    Torch: `nn.Dropout`.
    Differs: `prob` below 1; takes a key (`rng`) to draw by.
    """

    p = torch_name("prob")

    prob: float

    @lift
    def forward(self, x: Tensor, rng: Key | Generator | None = None) -> Tensor:
        """`[...] -> [...]`; x itself in evaluation.

        Args:
            x: floating-point.
            rng: what the values to zero are drawn by: with equal keys they are the same, compiled or not. None draws
                them by torch's global generator.
        """
        if rng is None or not self.training:
            return functional.dropout(x, self.prob, self.training)
        return torch.where(uniform(rng, x) >= self.prob, x / (1 - self.prob), 0.0)
