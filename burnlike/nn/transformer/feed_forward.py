"""The feed-forward parts of transformers, with and without a gate."""

import torch
from torch import Tensor

from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..dropout.configs import DropoutConfig
from ..layer import Layer, expect_shape
from ..linear.configs import LinearConfig
from .configs import GatedFeedForwardConfig, PositionWiseFeedForwardConfig


class PositionWiseFeedForward(KeepsType, Layer):
    """linear_outer(dropout(activation(linear_inner(x)))) at each position (Vaswani et al. 2017, section 3.3).

    Records have the activation's parameters, if there are any (Burn 0.22 loses them).

    Torch: the feed-forward part of `nn.TransformerEncoderLayer`.
    Differs: GELU by default, torch ReLU.
    """

    def __init__(self, config: PositionWiseFeedForwardConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        inner = LinearConfig(d_input=config.d_model, d_output=config.d_ff, initializer=config.initializer)
        self.linear_inner = inner.init(device)
        self.linear_outer = inner.replace(d_input=config.d_ff, d_output=config.d_model).init(device)
        self.dropout = DropoutConfig(prob=config.dropout).init()
        self.activation = config.activation.init(device)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[..., d_model] -> [..., d_model]`. Raises ShapeError if the activation changes the inner size."""
        expect_shape(self, x, "...", self.linear_inner.weight.shape[0])
        return self.linear_outer(self.dropout(self.activation(self.linear_inner(x))))

    def custom_content(self, content: Content) -> Content:
        d_model, d_ff = content.shape("linear_inner.weight")
        return content.add("d_model", d_model).add("d_ff", d_ff).add("prob", self.dropout.prob)


class GatedFeedForward(KeepsType, Layer):
    """linear(gate(x)), the gate activation(x w) * (x v), a SwiGlu or GatedLinear (Shazeer 2020, eq. 6). Torch: -."""

    def __init__(self, config: GatedFeedForwardConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.gate = config.gate.init(device)
        self.linear = LinearConfig(
            d_input=config.d_ff, d_output=config.d_model, bias=config.bias, initializer=config.output_initializer
        ).init(device)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[..., d_model] -> [..., d_model]`. Raises ShapeError if the last dimension of x is not `d_model`."""
        expect_shape(self, x, "...", self.linear.weight.shape[1])
        return self.linear(self.gate(x))

    def custom_content(self, content: Content) -> Content:
        d_ff, d_model = content.shape("linear.weight")
        return content.add("d_model", d_model).add("d_ff", d_ff).add("gate", self.gate)
