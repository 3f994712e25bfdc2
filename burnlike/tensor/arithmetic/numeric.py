"""Arithmetic of Float and Int tensors, its operators, its forms with a scalar, and bounds."""

from typing import Any

import torch
from torch.nn import Parameter

from ..core.base import B, D, Floats, K, Numbers, Numeric, Tensor, TensorBase, like, new, wrap
from ..core.kinds import Float, X
from ..core.operands import SMALL, computed, fail, match, mixed, operand, scalar, tensor_operand


class NumericMethods(TensorBase[B, D, K]):
    """Arithmetic, its operators, and bounds. A scalar is converted to the dtype of the tensor."""

    __slots__ = ()

    # NumPy leaves operators to the tensor, so that its scalars work on either side.
    __array_ufunc__: None = None

    def add(self: "Numbers[X]", other: "Tensor[B, D, K] | torch.Tensor | X") -> "Tensor[B, D, K]":
        """`x + y`. `[..], [..] -> [..]`, sizes equal or 1. Torch: `torch.add`. Differs: equal ranks, no promotion."""
        spec = result = self.spec
        value: Any = other
        kind = type(value)
        if kind is spec.tensor and value.spec is spec:
            value = value.inner
        elif not (kind is Parameter and value.dtype is spec.dtype and value.ndim == spec.rank and spec.tracks):
            value, result = match("add", spec, value)
        out = new(spec.tensor)
        try:
            out.inner = spec.ops.add(self.inner, value)
        except Exception as error:
            fail("add", error, self.inner, value)
        out.spec = result
        return out

    __add__ = add
    __radd__ = add

    def sub(self: "Numbers[X]", other: "Tensor[B, D, K] | torch.Tensor | X") -> "Tensor[B, D, K]":
        """`x - y`. `[..], [..] -> [..]`, sizes equal or 1. Torch: `torch.sub`. Differs: equal ranks, no promotion."""
        spec = result = self.spec
        value: Any = other
        kind = type(value)
        if kind is spec.tensor and value.spec is spec:
            value = value.inner
        elif not (kind is Parameter and value.dtype is spec.dtype and value.ndim == spec.rank and spec.tracks):
            value, result = match("sub", spec, value)
        out = new(spec.tensor)
        try:
            out.inner = spec.ops.sub(self.inner, value)
        except Exception as error:
            fail("sub", error, self.inner, value)
        out.spec = result
        return out

    __sub__ = sub

    def __rsub__(self: "Numbers[X]", other: "torch.Tensor | X") -> "Tensor[B, D, K]":
        return _reflected("sub", self, other)

    def mul(self: "Numbers[X]", other: "Tensor[B, D, K] | torch.Tensor | X") -> "Tensor[B, D, K]":
        """`x * y`. `[..], [..] -> [..]`, sizes equal or 1. Torch: `torch.mul`. Differs: equal ranks, no promotion."""
        spec = result = self.spec
        value: Any = other
        kind = type(value)
        if kind is spec.tensor and value.spec is spec:
            value = value.inner
        elif not (kind is Parameter and value.dtype is spec.dtype and value.ndim == spec.rank and spec.tracks):
            value, result = match("mul", spec, value)
        out = new(spec.tensor)
        try:
            out.inner = spec.ops.mul(self.inner, value)
        except Exception as error:
            fail("mul", error, self.inner, value)
        out.spec = result
        return out

    __mul__ = mul
    __rmul__ = mul

    def div(self: "Numbers[X]", other: "Tensor[B, D, K] | torch.Tensor | X") -> "Tensor[B, D, K]":
        """Quotient, element by element; Int truncates toward zero. `[..] / [..] -> [..]`, sizes equal or 1.
        Torch: `torch.div`, for Int with `rounding_mode="trunc"`.
        Differs: equal ranks, no promotion: Int stays Int; `scalar / x` is for Float, as `x.recip() * scalar`.
        """
        spec = result = self.spec
        value: Any = other
        kind = type(value)
        if kind is spec.tensor and value.spec is spec:
            value = value.inner
        elif not (kind is Parameter and value.dtype is spec.dtype and value.ndim == spec.rank and spec.tracks):
            value, result = match("div", spec, value)
        out = new(spec.tensor)
        try:
            out.inner = spec.ops.div(self.inner, value)
        except Exception as error:
            fail("div", error, self.inner, value)
        out.spec = result
        return out

    __truediv__ = div

    def __rtruediv__(self: "Floats[B, D]", other: "torch.Tensor | float") -> "Tensor[B, D, Float]":
        return _reflected("div", self, other)

    def remainder(self: "Numbers[X]", other: "Tensor[B, D, K] | torch.Tensor | X") -> "Tensor[B, D, K]":
        """Floor modulo, with the sign of the divisor. `[..] % [..] -> [..]`, sizes equal or 1.
        Torch: `torch.remainder`. Differs: equal ranks, no promotion.
        """
        spec = result = self.spec
        value: Any = other
        kind = type(value)
        if kind is spec.tensor and value.spec is spec:
            value = value.inner
        elif not (kind is Parameter and value.dtype is spec.dtype and value.ndim == spec.rank and spec.tracks):
            value, result = match("remainder", spec, value)
        out = new(spec.tensor)
        try:
            out.inner = spec.ops.remainder(self.inner, value)
        except Exception as error:
            fail("remainder", error, self.inner, value)
        out.spec = result
        return out

    __mod__ = remainder

    def __rmod__(self: "Numbers[X]", other: "torch.Tensor | X") -> "Tensor[B, D, K]":
        return _reflected("remainder", self, other)

    def powi(self: "Numbers[X]", other: "Tensor[B, D, K] | torch.Tensor | X") -> "Tensor[B, D, K]":
        """Power, element by element; on Float the same as `powf`. `[..] ** [..] -> [..]`, sizes equal or 1.
        Torch: `torch.pow`.
        Differs: equal ranks, no promotion; an Int power with a negative exponent is truncated toward zero.
        """
        spec = self.spec
        value: Any = other
        if type(value) is not spec.tensor or value.spec is not spec:
            return mixed("powi", self, value)
        try:
            return like(spec.ops.powi(self.inner, value.inner), spec)
        except Exception as error:
            fail("powi", error, self.inner, value.inner)

    __pow__ = powi

    def __rpow__(self: "Numbers[X]", other: "torch.Tensor | X") -> "Tensor[B, D, K]":
        return _reflected("powi", self, other)

    def neg(self: "Numeric[B, D]") -> "Tensor[B, D, K]":
        """The negative. `[..] -> [..]`. Torch: `torch.neg`."""
        spec = self.spec
        out = new(spec.tensor)
        out.inner = spec.ops.neg(self.inner)
        out.spec = spec
        return out

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

    def add_scalar(self: "Numbers[X]", scalar: X) -> "Tensor[B, D, K]":
        """The sum with a scalar. `[..] -> [..]`. Torch: `torch.add(x, scalar)`. Differs: no promotion."""
        return with_scalar("add", self, scalar)

    def sub_scalar(self: "Numbers[X]", scalar: X) -> "Tensor[B, D, K]":
        """The difference from a scalar. `[..] -> [..]`. Torch: `torch.sub(x, scalar)`. Differs: no promotion."""
        return with_scalar("sub", self, scalar)

    def mul_scalar(self: "Numbers[X]", scalar: X) -> "Tensor[B, D, K]":
        """The product with a scalar. `[..] -> [..]`. Torch: `torch.mul(x, scalar)`. Differs: no promotion."""
        return with_scalar("mul", self, scalar)

    def div_scalar(self: "Numbers[X]", scalar: X) -> "Tensor[B, D, K]":
        """The quotient by a scalar; Int truncates toward zero. `[..] -> [..]`.
        Torch: `torch.div(x, scalar)`, for Int with `rounding_mode="trunc"`. Differs: no promotion: Int stays Int.
        """
        return with_scalar("div", self, scalar)

    def remainder_scalar(self: "Numbers[X]", scalar: X) -> "Tensor[B, D, K]":
        """Floor modulo, with the scalar's sign. `[..] -> [..]`. Torch: `torch.remainder(x, scalar)`.
        Differs: no promotion.
        """
        return with_scalar("remainder", self, scalar)

    def powi_scalar(self: "Numbers[X]", scalar: X) -> "Tensor[B, D, K]":
        """The power with a whole number. `[..] -> [..]`. Torch: `torch.pow(x, scalar)`.
        Differs: Int takes negative exponents, and truncates toward zero.
        """
        return with_scalar("powi", self, scalar)

    def clamp(self: "Numbers[X]", min: X, max: X) -> "Tensor[B, D, K]":
        """Elements above `max` become `max`, then those below `min` become `min`. `[..] -> [..]`. Torch: `torch.clamp`.
        Differs: both bounds are required; where min > max the minimum wins; a bound beyond the type is infinite.
        """
        spec = self.spec
        if type(min) is not float or type(max) is not float or spec.kind is not Float:
            min, max = scalar("clamp", spec, min), scalar("clamp", spec, max)
        try:
            return wrap(spec.ops.clamp(self.inner, min, max), spec)
        except Exception as error:
            fail("clamp", error, self.inner)

    def clamp_min(self: "Numbers[X]", min: X) -> "Tensor[B, D, K]":
        """Elements below `min` become `min`. `[..] -> [..]`. Torch: `torch.clamp_min`."""
        return with_scalar("clamp_min", self, min)

    def clamp_max(self: "Numbers[X]", max: X) -> "Tensor[B, D, K]":
        """Elements above `max` become `max`. `[..] -> [..]`. Torch: `torch.clamp_max`."""
        return with_scalar("clamp_max", self, max)

    def max_pair(self: "Numeric[B, D]", other: "Tensor[B, D, K] | torch.Tensor") -> "Tensor[B, D, K]":
        """The larger of two, element by element. `[..] -> [..]`, sizes equal or 1. Torch: `torch.maximum`.
        Differs: a NaN in `other` is ignored, one in the receiver stays; of equal ones the receiver gets the gradient.
        """
        spec = self.spec
        value = tensor_operand("max_pair", spec, other)
        return like(computed("max_pair", spec.ops.max_pair, self.inner, value), spec)

    def min_pair(self: "Numeric[B, D]", other: "Tensor[B, D, K] | torch.Tensor") -> "Tensor[B, D, K]":
        """The smaller of two, element by element. `[..] -> [..]`, sizes equal or 1. Torch: `torch.minimum`.
        Differs: a NaN in `other` is ignored, one in the receiver stays; of equal ones the receiver gets the gradient.
        """
        spec = self.spec
        value = tensor_operand("min_pair", spec, other)
        return like(computed("min_pair", spec.ops.min_pair, self.inner, value), spec)


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
