"""Linear layer with Burn's row layout."""

import torch
from torch import Tensor
from torch.nn import functional

from ..module import Content
from ..tensor.lifting import lift
from .layer import Layer
from .linear_config import LinearConfig


class Linear(Layer):
    """y = x @ weight + bias.

    Attributes:
        weight: `[d_input, d_output]`, the transpose of `torch.nn.Linear`'s.
        bias: `[d_output]` or None.
    """

    def __init__(self, config: LinearConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        fans = {"fan_in": config.d_input, "fan_out": config.d_output, "device": device}
        self.weight = config.initializer.init([config.d_input, config.d_output], **fans)
        self.bias = config.initializer.init([config.d_output], **fans) if config.bias else None

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[..., d_input] -> [..., d_output]`."""
        return functional.linear(x, self.weight.mT, self.bias)

    def custom_content(self, content: Content) -> Content:
        """What the layer was made from."""
        d_input, d_output = content.shape("weight")
        return content.add("d_input", d_input).add("d_output", d_output).add("bias", content.has("bias"))
