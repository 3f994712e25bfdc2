"""Arithmetic between two tensors and on each element of one, and the constants and parameters that go with it."""

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from ...module import Content
from ...ops import matmul
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import ChangesRank, KeepsType
from ..layer import ConfiguredLayer, Layer, OfEachElement, shape_error
from ..torch_counterpart import AnyLibrary
from .configs import ConstantTensorConfig, ParameterConfig, SoftmaxConfig
from .shapes import expect_alike, expect_dim


class _OfTwo(KeepsType, AnyLibrary, ConfiguredLayer):
    """One operation between two inputs."""

    operation: ClassVar[Callable[[Tensor, Tensor], Tensor]]

    @lift
    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        """Two tensors of sizes that are equal or 1 `->` one of the larger sizes. Raises ShapeError if sizes differ."""
        expect_alike(self, (x, other))
        return type(self).operation(x, other)


class Subtract(_OfTwo):
    """x - other, element by element; sizes of 1 are repeated. Torch: `torch.sub`."""

    operation = torch.sub


class Divide(_OfTwo):
    """x / other, element by element; sizes of 1 are repeated. Torch: `torch.div`."""

    operation = torch.div


class MatMul(_OfTwo):
    """x @ other, the product of matrices in the last two dimensions; sizes of 1 before them are repeated.
    Torch: `torch.matmul`. Differs: both have the same number of dimensions.
    """

    @lift
    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        """`[..., n, k]` and `[..., k, m] -> [..., n, m]`. Raises ShapeError if there is no such product."""
        if x.ndim < 2 or other.ndim != x.ndim or x.shape[-1] != other.shape[-2]:
            expected = f"[..., {x.shape[-1] if x.ndim else 'k'}, m] of {max(x.ndim, 2)} dimensions"
            raise shape_error(self, f"{expected} beside {list(x.shape)}", list(other.shape), name="other")
        expect_alike(self, (x[..., 0, 0], other[..., 0, 0]))
        return matmul(x, other)


class Negate(AnyLibrary, OfEachElement):
    """-x, element by element. Torch: `torch.neg`."""

    operation = torch.neg


class Exp(AnyLibrary, OfEachElement):
    """exp(x), element by element. Torch: `torch.exp`."""

    operation = torch.exp


class Log(AnyLibrary, OfEachElement):
    """log(x), element by element; NaN below 0 and -inf at 0. Torch: `torch.log`."""

    operation = torch.log


class Sqrt(AnyLibrary, OfEachElement):
    """The square root of x, element by element; NaN below 0. Torch: `torch.sqrt`."""

    operation = torch.sqrt


class Softmax(KeepsType, AnyLibrary, ConfiguredLayer, config=SoftmaxConfig):
    """exp(x) / sum(exp(x)), the sum over the dimension `dim`.
    Torch: `nn.Softmax`. Differs: the dimension is the last by default.
    """

    dim: int

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`. Raises ShapeError if x has no dimension `dim`."""
        expect_dim(self, x, self.dim)
        return x.softmax(self.dim)


class ConstantTensor(AnyLibrary, ConfiguredLayer, config=ConstantTensorConfig):
    """A number as a tensor `[1, ..., 1]` like x: `type: Constant` in YAML. Torch: `torch.full`."""

    value: float

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [1, ..., 1]`; the values of x do not count."""
        return x.new_full([1] * x.ndim, self.value)


class Parameter(ChangesRank, AnyLibrary, Layer):
    """A trained tensor, `weight`, for each item of the batch of x. Torch: `nn.Parameter`, expanded."""

    def __init__(self, config: ParameterConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.weight = config.initializer.init(list(config.shape), device=device)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, ...] -> [batch, *shape]`. Raises ShapeError if x has no dimension."""
        if x.ndim == 0:
            raise shape_error(self, "[batch, ...]", [])
        # A copy, as layers that follow may write to it.
        return self.weight.expand(x.shape[0], *self.weight.shape).clone()

    def custom_content(self, content: Content) -> Content:
        return content.add("shape", list(content.shape("weight")))
