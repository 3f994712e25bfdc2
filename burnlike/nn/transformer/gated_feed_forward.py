"""The feed-forward part of today's decoders, with a gate."""

import torch
from torch import Tensor

from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..layer import Layer, expect_shape
from ..linear.configs import LinearConfig
from .configs import GatedFeedForwardConfig


class GatedFeedForward(KeepsType, Layer):
    """linear(gate(x)), the gate activation(x w) * (x v) (Shazeer 2020, eq. 6).

    Torch: -.

    Attributes:
        gate: SwiGlu, or GatedLinear with another activation, `d_model -> d_ff`.
        linear: Linear `d_ff -> d_model`.
    """

    def __init__(self, config: GatedFeedForwardConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.gate = config.gate.init(device)
        self.linear = LinearConfig(
            d_input=config.d_ff, d_output=config.d_model, bias=config.bias, initializer=config.output_initializer
        ).init(device)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[..., d_model] -> [..., d_model]`.

        Raises:
            ShapeError: the last dimension of x is not `d_model`.
        """
        expect_shape(self, x, "...", self.linear.weight.shape[1])
        return self.linear(self.gate(x))

    def custom_content(self, content: Content) -> Content:
        d_ff, d_model = content.shape("linear.weight")
        return content.add("d_model", d_model).add("d_ff", d_ff).add("gate", self.gate)
