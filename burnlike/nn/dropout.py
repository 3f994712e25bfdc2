"""Dropout."""

from torch import Tensor
from torch.nn import functional

from ..module import Module
from ..tensor.lifting import lift
from .dropout_config import DropoutConfig


class Dropout(Module):
    """Zero each value with probability `prob` in training and scale the rest by 1 / (1 - prob)."""

    def __init__(self, config: DropoutConfig) -> None:
        super().__init__()
        self.prob = config.prob

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`; x itself in evaluation."""
        return functional.dropout(x, self.prob, self.training)
