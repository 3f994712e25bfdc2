"""A gated linear unit with any activation as its gate."""

import torch
from torch import Tensor

from ...module import Content
from ...ops._arguments import for_products
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..layer import Layer, expect_shape
from ..linear.configs import LinearConfig
from .configs import GatedLinearConfig


class GatedLinear(KeepsType, Layer):
    """activation(linear_inner(x)) * linear_outer(x) (Shazeer 2020, eq. 5): GEGLU with GELU, ReGLU with ReLU.

    Torch: -.

    Attributes:
        linear_inner: Linear `d_input -> d_output`, of the gate.
        linear_outer: as linear_inner, of what is gated.
    """

    def __init__(self, config: GatedLinearConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        linear = LinearConfig(
            d_input=config.d_input, d_output=config.d_output, bias=config.bias, initializer=config.initializer
        )
        self.linear_inner = linear.init(device)
        self.linear_outer = linear.init(device)
        self.activation = config.activation.init(device)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[..., d_input] -> [..., d_output]`.

        Raises:
            ShapeError: the last dimension of x is not `d_input`.
        """
        expect_shape(self, x, "...", self.linear_inner.weight.shape[0])
        x = for_products(x)
        return self.activation(self.linear_inner(x)) * self.linear_outer(x)

    def custom_content(self, content: Content) -> Content:
        d_input, d_output = content.shape("linear_inner.weight")
        content = content.add("d_input", d_input).add("d_output", d_output)
        return content.add("bias", content.has("linear_inner.bias")).add("activation", self.activation)
