"""SwiGLU: a gated linear unit with SiLU as its gate."""

import torch
from torch import Tensor

from ...module import Content
from ...ops import swiglu, swiglu_reference
from ...ops._arguments import for_products
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..layer import Layer, exports_to_onnx
from ..linear.configs import LinearConfig
from .configs import SwiGluConfig


class SwiGlu(KeepsType, Layer):
    """silu(linear_inner(x)) * linear_outer(x) (Shazeer 2020, eq. 5).

    Torch: -.
    """

    def __init__(self, config: SwiGluConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        linear = LinearConfig(
            d_input=config.d_input, d_output=config.d_output, bias=config.bias, initializer=config.initializer
        )
        self.linear_inner = linear.init(device)
        self.linear_outer = linear.init(device)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[..., d_input] -> [..., d_output]`."""
        x = for_products(x)
        glu = swiglu_reference if exports_to_onnx() else swiglu
        return glu(self.linear_inner(x), self.linear_outer(x))

    def custom_content(self, content: Content) -> Content:
        d_input, d_output = content.shape("linear_inner.weight")
        bias = content.has("linear_inner.bias")
        return content.add("d_input", d_input).add("d_output", d_output).add("bias", bias)
