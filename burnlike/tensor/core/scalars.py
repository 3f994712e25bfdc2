"""Arithmetic of a tensor with a scalar, under Burn's names."""

from typing import Any, overload

from .base import B, D, K, Tensor, TensorBase, like
from .kinds import Float, Int
from .operands import SMALL, fail, scalar


class ScalarMethods(TensorBase[B, D, K]):
    """Arithmetic with a scalar, which is converted to the tensor's dtype; an Int tensor takes whole numbers."""

    __slots__ = ()

    @overload
    def add_scalar(self: "ScalarMethods[B, D, Float]", scalar: float) -> "Tensor[B, D, Float]": ...
    @overload
    def add_scalar(self: "ScalarMethods[B, D, Int]", scalar: int) -> "Tensor[B, D, Int]": ...
    def add_scalar(self: Any, scalar: Any) -> Any:
        """The sum with a scalar. `[..] -> [..]`. Torch: `torch.add(x, scalar)`.

        Differs: no promotion.
        """
        return with_scalar("add", self, scalar)

    @overload
    def sub_scalar(self: "ScalarMethods[B, D, Float]", scalar: float) -> "Tensor[B, D, Float]": ...
    @overload
    def sub_scalar(self: "ScalarMethods[B, D, Int]", scalar: int) -> "Tensor[B, D, Int]": ...
    def sub_scalar(self: Any, scalar: Any) -> Any:
        """The difference from a scalar. `[..] -> [..]`. Torch: `torch.sub(x, scalar)`.

        Differs: no promotion.
        """
        return with_scalar("sub", self, scalar)

    @overload
    def mul_scalar(self: "ScalarMethods[B, D, Float]", scalar: float) -> "Tensor[B, D, Float]": ...
    @overload
    def mul_scalar(self: "ScalarMethods[B, D, Int]", scalar: int) -> "Tensor[B, D, Int]": ...
    def mul_scalar(self: Any, scalar: Any) -> Any:
        """The product with a scalar. `[..] -> [..]`. Torch: `torch.mul(x, scalar)`.

        Differs: no promotion.
        """
        return with_scalar("mul", self, scalar)

    @overload
    def div_scalar(self: "ScalarMethods[B, D, Float]", scalar: float) -> "Tensor[B, D, Float]": ...
    @overload
    def div_scalar(self: "ScalarMethods[B, D, Int]", scalar: int) -> "Tensor[B, D, Int]": ...
    def div_scalar(self: Any, scalar: Any) -> Any:
        """The quotient by a scalar; Int truncates toward zero. `[..] -> [..]`.

        Torch: `torch.div(x, scalar)`, for Int with `rounding_mode="trunc"`.
        Differs: no promotion: Int stays Int.
        """
        return with_scalar("div", self, scalar)

    @overload
    def remainder_scalar(self: "ScalarMethods[B, D, Float]", scalar: float) -> "Tensor[B, D, Float]": ...
    @overload
    def remainder_scalar(self: "ScalarMethods[B, D, Int]", scalar: int) -> "Tensor[B, D, Int]": ...
    def remainder_scalar(self: Any, scalar: Any) -> Any:
        """Floor modulo by a scalar, with its sign. `[..] -> [..]`. Torch: `torch.remainder(x, scalar)`.

        Differs: no promotion.
        """
        return with_scalar("remainder", self, scalar)

    @overload
    def powi_scalar(self: "ScalarMethods[B, D, Float]", scalar: float) -> "Tensor[B, D, Float]": ...
    @overload
    def powi_scalar(self: "ScalarMethods[B, D, Int]", scalar: int) -> "Tensor[B, D, Int]": ...
    def powi_scalar(self: Any, scalar: Any) -> Any:
        """The power with a whole number. `[..] -> [..]`. Torch: `torch.pow(x, scalar)`.

        Differs: Int takes negative exponents, and truncates toward zero.
        """
        return with_scalar("powi", self, scalar)


def with_scalar(name: str, tensor: Any, value: Any) -> Any:
    """An operation with a number as its other operand, which the element type must be able to hold."""
    spec = tensor.spec
    kind = type(value)
    if (kind is not float or spec.kind is not Float) and (kind is not int or not 0 <= value <= SMALL):
        value = scalar(name, spec, value)
    try:
        return like(getattr(spec.ops, name)(tensor.inner, value), spec)
    except Exception as error:
        fail(name, error, tensor.inner)
