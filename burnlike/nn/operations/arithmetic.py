"""Arithmetic between two tensors, and on each element of one."""

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..layer import Layer, shape_error
from ..torch_counterpart import AnyLibrary
from .arithmetic_configs import ConstantTensorConfig, SoftmaxConfig
from .joining import expect_alike, expect_dim


class _OfTwo(KeepsType, AnyLibrary, Layer):
    """One operation between two inputs."""

    operation: ClassVar[Callable[[Tensor, Tensor], Tensor]]

    def __init__(self, config: Any = None) -> None:
        super().__init__()

    @lift
    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        """Two tensors of sizes that are equal or 1 `->` one of the larger sizes.

        Raises:
            ShapeError: sizes differ.
        """
        expect_alike(self, (x, other))
        return type(self).operation(x, other)


class Subtract(_OfTwo):
    """x - other, element by element; sizes of 1 are repeated.

    Torch: `torch.sub`.
    """

    operation = torch.sub


class Divide(_OfTwo):
    """x / other, element by element; sizes of 1 are repeated.

    Torch: `torch.div`.
    """

    operation = torch.div


class MatMul(_OfTwo):
    """x @ other, the product of matrices in the last two dimensions; sizes of 1 before them are repeated.

    Torch: `torch.matmul`.
    Differs: both have as many dimensions.
    """

    @lift
    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        """`[..., n, k]` and `[..., k, m] -> [..., n, m]`.

        Raises:
            ShapeError: there is no such product.
        """
        if x.ndim < 2 or other.ndim != x.ndim or x.shape[-1] != other.shape[-2]:
            expected = f"[..., {x.shape[-1] if x.ndim else 'k'}, m] of {max(x.ndim, 2)} dimensions"
            raise shape_error(self, f"{expected} beside {list(x.shape)}", list(other.shape), name="other")
        expect_alike(self, (x[..., 0, 0], other[..., 0, 0]))
        return torch.matmul(x, other)


class _OfOne(KeepsType, AnyLibrary, Layer):
    """One operation on each element."""

    operation: ClassVar[Callable[[Tensor], Tensor]]

    def __init__(self, config: Any = None) -> None:
        super().__init__()

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`."""
        return type(self).operation(x)


class Negate(_OfOne):
    """-x, element by element.

    Torch: `torch.neg`.
    """

    operation = torch.neg


class Exp(_OfOne):
    """exp(x), element by element.

    Torch: `torch.exp`.
    """

    operation = torch.exp


class Log(_OfOne):
    """log(x), element by element; NaN below 0 and -inf at 0.

    Torch: `torch.log`.
    """

    operation = torch.log


class Sqrt(_OfOne):
    """The square root of x, element by element; NaN below 0.

    Torch: `torch.sqrt`.
    """

    operation = torch.sqrt


class Softmax(KeepsType, AnyLibrary, Layer):
    """exp(x) / sum(exp(x)), the sum over the dimension `dim`.

    Torch: `nn.Softmax`.
    Differs: the dimension is the last by default.
    """

    def __init__(self, config: SoftmaxConfig | None = None) -> None:
        super().__init__()
        self.dim = (config or SoftmaxConfig()).dim

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`.

        Raises:
            ShapeError: x has no dimension `dim`.
        """
        expect_dim(self, x, self.dim)
        return x.softmax(self.dim)


class ConstantTensor(AnyLibrary, Layer):
    """A number as a tensor of the element type of x, of size 1 in each of its dimensions: `type: Constant` in YAML.

    Torch: `torch.full`.
    """

    def __init__(self, config: ConstantTensorConfig) -> None:
        super().__init__()
        self.value = config.value

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [1, ..., 1]`; the values of x do not count."""
        return x.new_full([1] * x.ndim, self.value)

    def custom_content(self, content: Content) -> Content:
        return content.add("value", self.value)
