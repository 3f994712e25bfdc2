"""Arithmetic of Float and Int tensors, and its operators."""

from typing import Any, overload

import torch
from torch.nn import Parameter

from ..core.base import B, D, FloatOperand, IntOperand, K, Numeric, Tensor, TensorBase, like, wrap
from ..core.kinds import Float, Int
from ..core.operands import fail, match, mixed, operand


class NumericMethods(TensorBase[B, D, K]):
    """Arithmetic, and the operators that stand for it."""

    __slots__ = ()

    # NumPy leaves operators to the tensor, so that its scalars work on either side.
    __array_ufunc__: None = None

    @overload
    def add(self: "NumericMethods[B, D, Float]", other: "FloatOperand[B, D]") -> "Tensor[B, D, Float]": ...
    @overload
    def add(self: "NumericMethods[B, D, Int]", other: "IntOperand[B, D]") -> "Tensor[B, D, Int]": ...
    def add(self: Any, other: Any) -> Any:
        """Sum, element by element. `[..] + [..] -> [..]`, sizes equal or 1. Torch: `torch.add`.

        Differs: equal ranks, no promotion; a scalar is converted to the tensor's dtype.
        """
        spec = result = self.spec
        kind = type(other)
        if kind is spec.tensor and other.spec is spec:
            value = other.inner
        elif kind is Parameter and other.dtype is spec.dtype and other.ndim == spec.rank and spec.tracks:
            value = other
        else:
            value, result = match("add", spec, other)
        try:
            return wrap(spec.ops.add(self.inner, value), result)
        except Exception as error:
            fail("add", error, self.inner, value)

    __add__ = add
    __radd__ = add

    @overload
    def sub(self: "NumericMethods[B, D, Float]", other: "FloatOperand[B, D]") -> "Tensor[B, D, Float]": ...
    @overload
    def sub(self: "NumericMethods[B, D, Int]", other: "IntOperand[B, D]") -> "Tensor[B, D, Int]": ...
    def sub(self: Any, other: Any) -> Any:
        """Difference, element by element. `[..] - [..] -> [..]`, sizes equal or 1. Torch: `torch.sub`.

        Differs: equal ranks, no promotion; a scalar is converted to the tensor's dtype.
        """
        spec = result = self.spec
        kind = type(other)
        if kind is spec.tensor and other.spec is spec:
            value = other.inner
        elif kind is Parameter and other.dtype is spec.dtype and other.ndim == spec.rank and spec.tracks:
            value = other
        else:
            value, result = match("sub", spec, other)
        try:
            return wrap(spec.ops.sub(self.inner, value), result)
        except Exception as error:
            fail("sub", error, self.inner, value)

    __sub__ = sub

    @overload
    def __rsub__(self: "NumericMethods[B, D, Float]", other: "torch.Tensor | float") -> "Tensor[B, D, Float]": ...
    @overload
    def __rsub__(self: "NumericMethods[B, D, Int]", other: "torch.Tensor | int") -> "Tensor[B, D, Int]": ...
    def __rsub__(self: Any, other: Any) -> Any:
        return _reflected("sub", self, other)

    @overload
    def mul(self: "NumericMethods[B, D, Float]", other: "FloatOperand[B, D]") -> "Tensor[B, D, Float]": ...
    @overload
    def mul(self: "NumericMethods[B, D, Int]", other: "IntOperand[B, D]") -> "Tensor[B, D, Int]": ...
    def mul(self: Any, other: Any) -> Any:
        """Product, element by element. `[..] * [..] -> [..]`, sizes equal or 1. Torch: `torch.mul`.

        Differs: equal ranks, no promotion; a scalar is converted to the tensor's dtype.
        """
        spec = result = self.spec
        kind = type(other)
        if kind is spec.tensor and other.spec is spec:
            value = other.inner
        elif kind is Parameter and other.dtype is spec.dtype and other.ndim == spec.rank and spec.tracks:
            value = other
        else:
            value, result = match("mul", spec, other)
        try:
            return wrap(spec.ops.mul(self.inner, value), result)
        except Exception as error:
            fail("mul", error, self.inner, value)

    __mul__ = mul
    __rmul__ = mul

    @overload
    def div(self: "NumericMethods[B, D, Float]", other: "FloatOperand[B, D]") -> "Tensor[B, D, Float]": ...
    @overload
    def div(self: "NumericMethods[B, D, Int]", other: "IntOperand[B, D]") -> "Tensor[B, D, Int]": ...
    def div(self: Any, other: Any) -> Any:
        """Quotient, element by element; Int truncates toward zero. `[..] / [..] -> [..]`, sizes equal or 1.

        Torch: `torch.div`, for Int with `rounding_mode="trunc"`.
        Differs: equal ranks, no promotion: Int stays Int; `scalar / x` is for Float, as `x.recip() * scalar`.
        """
        spec = result = self.spec
        kind = type(other)
        if kind is spec.tensor and other.spec is spec:
            value = other.inner
        elif kind is Parameter and other.dtype is spec.dtype and other.ndim == spec.rank and spec.tracks:
            value = other
        else:
            value, result = match("div", spec, other)
        try:
            return wrap(spec.ops.div(self.inner, value), result)
        except Exception as error:
            fail("div", error, self.inner, value)

    __truediv__ = div

    def __rtruediv__(self: "NumericMethods[B, D, Float]", other: "torch.Tensor | float") -> "Tensor[B, D, Float]":
        return _reflected("div", self, other)

    @overload
    def remainder(self: "NumericMethods[B, D, Float]", other: "FloatOperand[B, D]") -> "Tensor[B, D, Float]": ...
    @overload
    def remainder(self: "NumericMethods[B, D, Int]", other: "IntOperand[B, D]") -> "Tensor[B, D, Int]": ...
    def remainder(self: Any, other: Any) -> Any:
        """Floor modulo, with the sign of the divisor. `[..] % [..] -> [..]`, sizes equal or 1.

        Torch: `torch.remainder`.
        Differs: equal ranks, no promotion; a scalar is converted to the tensor's dtype.
        """
        spec = result = self.spec
        kind = type(other)
        if kind is spec.tensor and other.spec is spec:
            value = other.inner
        elif kind is Parameter and other.dtype is spec.dtype and other.ndim == spec.rank and spec.tracks:
            value = other
        else:
            value, result = match("remainder", spec, other)
        try:
            return wrap(spec.ops.remainder(self.inner, value), result)
        except Exception as error:
            fail("remainder", error, self.inner, value)

    __mod__ = remainder

    @overload
    def __rmod__(self: "NumericMethods[B, D, Float]", other: "torch.Tensor | float") -> "Tensor[B, D, Float]": ...
    @overload
    def __rmod__(self: "NumericMethods[B, D, Int]", other: "torch.Tensor | int") -> "Tensor[B, D, Int]": ...
    def __rmod__(self: Any, other: Any) -> Any:
        return _reflected("remainder", self, other)

    @overload
    def powi(self: "NumericMethods[B, D, Float]", other: "FloatOperand[B, D]") -> "Tensor[B, D, Float]": ...
    @overload
    def powi(self: "NumericMethods[B, D, Int]", other: "IntOperand[B, D]") -> "Tensor[B, D, Int]": ...
    def powi(self: Any, other: Any) -> Any:
        """Power, element by element; on Float the same as `powf`. `[..] ** [..] -> [..]`, sizes equal or 1.

        Torch: `torch.pow`.
        Differs: equal ranks, no promotion; an Int power with a negative exponent is truncated toward zero.
        """
        spec = self.spec
        if type(other) is not spec.tensor or other.spec is not spec:
            return mixed("powi", self, other)
        try:
            return like(spec.ops.powi(self.inner, other.inner), spec)
        except Exception as error:
            fail("powi", error, self.inner, other.inner)

    __pow__ = powi

    @overload
    def __rpow__(self: "NumericMethods[B, D, Float]", other: "torch.Tensor | float") -> "Tensor[B, D, Float]": ...
    @overload
    def __rpow__(self: "NumericMethods[B, D, Int]", other: "torch.Tensor | int") -> "Tensor[B, D, Int]": ...
    def __rpow__(self: Any, other: Any) -> Any:
        return _reflected("powi", self, other)

    def neg(self: "Numeric[B, D]") -> "Tensor[B, D, K]":
        """The negative. `[..] -> [..]`. Torch: `torch.neg`."""
        return wrap(self.spec.ops.neg(self.inner), self.spec)

    __neg__ = neg

    def abs(self: "Numeric[B, D]") -> "Tensor[B, D, K]":
        """The absolute value; that of the smallest Int is itself. `[..] -> [..]`. Torch: `torch.abs`."""
        return wrap(self.spec.ops.abs(self.inner), self.spec)

    __abs__ = abs

    def sign(self: "Numeric[B, D]") -> "Tensor[B, D, K]":
        """-1, 0 or 1, and 0 for NaN. `[..] -> [..]`. Torch: `torch.sign`."""
        return wrap(self.spec.ops.sign(self.inner), self.spec)

    def square(self: "Numeric[B, D]") -> "Tensor[B, D, K]":
        """The square. `[..] -> [..]`. Torch: `torch.square`."""
        return like(self.spec.ops.square(self.inner), self.spec)


def _reflected(name: str, tensor: Any, other: Any) -> Any:
    """`other` op `tensor`, where `other` is a torch tensor, a scalar, or does not fit."""
    spec = tensor.spec
    value = operand(name, spec, other)
    try:
        if isinstance(value, torch.Tensor):
            return like(getattr(spec.ops, name)(value, tensor.inner), spec)
        return like(getattr(spec.ops, f"r{name}")(tensor.inner, value), spec)
    except Exception as error:
        fail(name, error, value, tensor.inner)
