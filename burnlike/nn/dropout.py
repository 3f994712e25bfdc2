"""Dropout."""

from torch import Tensor
from torch.nn import functional

from ..module import Content
from ..tensor.lifting import lift
from .dropout_config import DropoutConfig
from .layer import Layer


class Dropout(Layer):
    """Zero each value with probability `prob` in training and scale the rest by 1 / (1 - prob)."""

    def __init__(self, config: DropoutConfig) -> None:
        super().__init__()
        self.prob = config.prob

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`; x itself in evaluation."""
        return functional.dropout(x, self.prob, self.training)

    def custom_content(self, content: Content) -> Content:
        """What the layer was made from."""
        return content.add("prob", self.prob)
