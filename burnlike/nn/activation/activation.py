"""Gated linear units, and the activation that a config chooses, as a field of other layers."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...module import Content, Module
from ...ops import swiglu, swiglu_reference
from ...ops._arguments import for_products
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..configs import LinearConfig
from ..layer import ChosenLayer, FromConfig, Layer, expect_shape, exports_to_onnx, shape_error
from ..roles import ActivationConfig
from ..torch_counterpart import alike
from . import configs
from .configs import GatedLinearConfig, GLUConfig, SwiGluConfig


class _Gated(KeepsType, Layer):
    """Two linear layers from and to the same sizes."""

    def __init__(self, config: GatedLinearConfig | SwiGluConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        linear = LinearConfig(
            d_input=config.d_input, d_output=config.d_output, bias=config.bias, initializer=config.initializer
        )
        self.linear_inner = linear.init(device)
        self.linear_outer = linear.init(device)

    def custom_content(self, content: Content) -> Content:
        d_input, d_output = content.shape("linear_inner.weight")
        bias = content.has("linear_inner.bias")
        return content.add("d_input", d_input).add("d_output", d_output).add("bias", bias)


class GatedLinear(_Gated):
    """activation(linear_inner(x)) * linear_outer(x) (Shazeer 2020, eq. 5), as GEGLU with GELU. Torch: -."""

    def __init__(self, config: GatedLinearConfig, device: torch.device | str | None = None) -> None:
        super().__init__(config, device)
        self.activation = config.activation.init(device)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[..., d_input] -> [..., d_output]`. Raises ShapeError if the last dimension of x is not `d_input`."""
        expect_shape(self, x, "...", self.linear_inner.weight.shape[0])
        x = for_products(x)
        return self.activation(self.linear_inner(x)) * self.linear_outer(x)

    def custom_content(self, content: Content) -> Content:
        return super().custom_content(content).add("activation", self.activation)


class SwiGlu(_Gated):
    """silu(linear_inner(x)) * linear_outer(x) (Shazeer 2020, eq. 5). Torch: -."""

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[..., d_input] -> [..., d_output]`."""
        x = for_products(x)
        glu = swiglu_reference if exports_to_onnx() else swiglu
        return glu(self.linear_inner(x), self.linear_outer(x))


class GLU(KeepsType, FromConfig, Module):
    """a * sigmoid(b), a and b the halves of x along the dimension `dim` (Dauphin et al. 2017, eq. 1).
    Torch: `nn.GLU`. Differs: `dim` has no default.
    """

    def __init__(self, config: GLUConfig) -> None:
        super().__init__()
        self.dim = config.dim

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[..., 2 * size, ...] -> [..., size, ...]`. Raises ShapeError if `dim` is no dimension of x, or odd."""
        if not -x.ndim <= self.dim < x.ndim or x.shape[self.dim] % 2:
            raise shape_error(self, f"an even size of dimension {self.dim}", list(x.shape))
        return functional.glu(x, self.dim)


class Activation(ChosenLayer):
    """One of the activations; which one is part of the record.

    Example:
        >>> from burnlike.nn import GeluConfig
        >>> Activation.of(GeluConfig()).variant
        'Gelu'
    """


Activation.__annotations__ = {
    config.__name__.removesuffix("Config"): Module
    for config in vars(configs).values()
    if isinstance(config, type) and issubclass(config, ActivationConfig) and config is not ActivationConfig
}
"""The variants, in the order of the configs: records in Burn's bincode have their numbers."""


COUNTERPARTS = [alike(GLUConfig, nn.GLU)]
