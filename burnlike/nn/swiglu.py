"""SwiGLU: a gated linear unit with SiLU as its gate."""

import torch
from torch import Tensor
from torch.nn import functional

from ..module import Module
from ..tensor.lifting import lift
from .linear_config import LinearConfig
from .swiglu_config import SwiGluConfig


class SwiGlu(Module):
    """silu(linear_inner(x)) * linear_outer(x) (Shazeer 2020, eq. 5)."""

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
        return functional.silu(self.linear_inner(x)) * self.linear_outer(x)
