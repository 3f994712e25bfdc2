"""Learned scales of channels."""

import torch
from torch import Tensor

from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..initializers.configs import Constant
from ..layer import Layer, expect_shape
from ..linear.configs import LinearConfig
from ..torch_counterpart import AnyLibrary
from .configs import LayerScaleConfig, SqueezeExciteConfig


class LayerScale(KeepsType, AnyLibrary, Layer):
    """x * gamma `[d_model]`, learned and `value` at first (Touvron et al. 2021, eq. 4). Torch: -."""

    def __init__(self, config: LayerScaleConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.gamma = Constant(value=config.value).init([config.d_model], device=device)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[..., d_model] -> [..., d_model]`. Raises ShapeError if the last dimension of x is not `d_model`."""
        expect_shape(self, x, "...", self.gamma.shape[0])
        return x * self.gamma

    def custom_content(self, content: Content) -> Content:
        (d_model,) = content.shape("gamma")
        return content.add("d_model", d_model)


class SqueezeExcite(KeepsType, AnyLibrary, Layer):
    """x * gate(expand(activation(reduce(mean of x over height and width)))) (Hu et al. 2018, eq. 2 to 4). Torch: -."""

    def __init__(self, config: SqueezeExciteConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.reduce = LinearConfig(d_input=config.channels, d_output=config.d_hidden).init(device)
        self.expand = LinearConfig(d_input=config.d_hidden, d_output=config.channels).init(device)
        self.activation = config.activation.init(device)
        self.gate = config.gate.init(device)
        self.channels = config.channels
        self.d_hidden = config.d_hidden

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels, height, width] -> [batch, channels, height, width]`."""
        expect_shape(self, x, "batch", self.channels, "height", "width")
        scales = self.gate(self.expand(self.activation(self.reduce(x.mean((2, 3))))))
        return x * scales[:, :, None, None]

    def custom_content(self, content: Content) -> Content:
        content = content.add("channels", self.channels).add("d_hidden", self.d_hidden)
        return content.add("activation", self.activation).add("gate", self.gate)
