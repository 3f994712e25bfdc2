"""Element-wise functions of Float tensors: exponents, roots, rounding, pairs, angles."""

from typing import Any

import torch

from ..core.base import B, D, FloatOperand, K, Tensor, TensorBase, like, wrap
from ..core.kinds import Float
from ..core.operands import computed, fail, mixed, tensor_operand
from ..core.scalars import with_scalar


class FloatMethods(TensorBase[B, D, K]):
    """Exponents, roots, rounding, and functions of two tensors."""

    __slots__ = ()

    def exp(self: "FloatMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """e to the power of each element. `[..] -> [..]`. Torch: `torch.exp`."""
        return like(self.spec.ops.exp(self.inner), self.spec)

    def log(self: "FloatMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The natural logarithm. `[..] -> [..]`. Torch: `torch.log`."""
        return like(self.spec.ops.log(self.inner), self.spec)

    def log1p(self: "FloatMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """log(1 + x), exact near 0. `[..] -> [..]`. Torch: `torch.log1p`."""
        return like(self.spec.ops.log1p(self.inner), self.spec)

    def sqrt(self: "FloatMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The square root; NaN of negative numbers. `[..] -> [..]`. Torch: `torch.sqrt`."""
        return wrap(self.spec.ops.sqrt(self.inner), self.spec)

    def recip(self: "FloatMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """1 / x. `[..] -> [..]`. Torch: `torch.reciprocal`."""
        return like(self.spec.ops.recip(self.inner), self.spec)

    def erf(self: "FloatMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The error function. `[..] -> [..]`. Torch: `torch.erf`."""
        return wrap(self.spec.ops.erf(self.inner), self.spec)

    def round(self: "FloatMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The nearest whole number; of two the even one. `[..] -> [..]`. Torch: `torch.round`."""
        return wrap(self.spec.ops.round(self.inner), self.spec)

    def floor(self: "FloatMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The largest whole number that is not above x. `[..] -> [..]`. Torch: `torch.floor`."""
        return wrap(self.spec.ops.floor(self.inner), self.spec)

    def ceil(self: "FloatMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The smallest whole number that is not below x. `[..] -> [..]`. Torch: `torch.ceil`."""
        return wrap(self.spec.ops.ceil(self.inner), self.spec)

    def trunc(self: "FloatMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The whole part: rounded toward zero. `[..] -> [..]`. Torch: `torch.trunc`."""
        return wrap(self.spec.ops.trunc(self.inner), self.spec)

    def powf(self: "FloatMethods[B, D, Float]", other: "FloatOperand[B, D]") -> "Tensor[B, D, Float]":
        """Power, element by element. `[..] ** [..] -> [..]`, sizes equal or 1. Torch: `torch.pow`.

        Differs: equal ranks, no promotion.
        """
        spec = self.spec
        value: Any = other
        if type(value) is not spec.tensor or value.spec is not spec:
            return mixed("powf", self, value)
        try:
            return like(spec.ops.powf(self.inner, value.inner), spec)
        except Exception as error:
            fail("powf", error, self.inner, value.inner)

    def powf_scalar(self: "FloatMethods[B, D, Float]", scalar: float) -> "Tensor[B, D, Float]":
        """The power with a number. `[..] -> [..]`. Torch: `torch.pow(x, scalar)`."""
        return with_scalar("powf", self, scalar)

    def fmod(self: "FloatMethods[B, D, Float]", other: "FloatOperand[B, D]") -> "Tensor[B, D, Float]":
        """x - y * trunc(x / y), with the sign of x; x where y is infinite. `[..] -> [..]`, sizes equal or 1.

        Torch: `torch.fmod`.
        Differs: equal ranks, no promotion.
        """
        return mixed("fmod", self, other)

    def fmod_scalar(self: "FloatMethods[B, D, Float]", scalar: float) -> "Tensor[B, D, Float]":
        """The remainder by a number, with the sign of x. `[..] -> [..]`. Torch: `torch.fmod(x, scalar)`."""
        return with_scalar("fmod", self, scalar)

    def hypot(self: "FloatMethods[B, D, Float]", other: "Tensor[B, D, Float] | torch.Tensor") -> "Tensor[B, D, Float]":
        """sqrt(x^2 + y^2) without overflow. `[..] -> [..]`, sizes equal or 1. Torch: `torch.hypot`.

        Differs: equal ranks, no promotion.
        """
        spec = self.spec
        value = tensor_operand("hypot", spec, other)
        return like(computed("hypot", spec.ops.hypot, self.inner, value), spec)


class TrigonometryMethods(TensorBase[B, D, K]):
    """Trigonometric and hyperbolic functions; angles are in radians."""

    __slots__ = ()

    def cos(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The cosine. `[..] -> [..]`. Torch: `torch.cos`."""
        return wrap(self.spec.ops.cos(self.inner), self.spec)

    def sin(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The sine. `[..] -> [..]`. Torch: `torch.sin`."""
        return wrap(self.spec.ops.sin(self.inner), self.spec)

    def tan(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The tangent. `[..] -> [..]`. Torch: `torch.tan`."""
        return like(self.spec.ops.tan(self.inner), self.spec)

    def cosh(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The hyperbolic cosine. `[..] -> [..]`. Torch: `torch.cosh`."""
        return like(self.spec.ops.cosh(self.inner), self.spec)

    def sinh(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The hyperbolic sine. `[..] -> [..]`. Torch: `torch.sinh`."""
        return like(self.spec.ops.sinh(self.inner), self.spec)

    def tanh(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The hyperbolic tangent. `[..] -> [..]`. Torch: `torch.tanh`."""
        return wrap(self.spec.ops.tanh(self.inner), self.spec)

    def acos(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The inverse of the cosine; NaN outside of -1 .. 1. `[..] -> [..]`. Torch: `torch.acos`."""
        return like(self.spec.ops.acos(self.inner), self.spec)

    def asin(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The inverse of the sine; NaN outside of -1 .. 1. `[..] -> [..]`. Torch: `torch.asin`."""
        return like(self.spec.ops.asin(self.inner), self.spec)

    def atan(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The inverse of the tangent. `[..] -> [..]`. Torch: `torch.atan`."""
        return wrap(self.spec.ops.atan(self.inner), self.spec)

    def acosh(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The inverse of the hyperbolic cosine; NaN below 1. `[..] -> [..]`. Torch: `torch.acosh`."""
        return wrap(self.spec.ops.acosh(self.inner), self.spec)

    def asinh(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The inverse of the hyperbolic sine. `[..] -> [..]`. Torch: `torch.asinh`."""
        return wrap(self.spec.ops.asinh(self.inner), self.spec)

    def atanh(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The inverse of the hyperbolic tangent; NaN outside of -1 .. 1. `[..] -> [..]`. Torch: `torch.atanh`."""
        return wrap(self.spec.ops.atanh(self.inner), self.spec)

    def deg2rad(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """Degrees as radians. `[..] -> [..]`. Torch: `torch.deg2rad`."""
        return wrap(self.spec.ops.deg2rad(self.inner), self.spec)

    def rad2deg(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """Radians as degrees. `[..] -> [..]`. Torch: `torch.rad2deg`."""
        return wrap(self.spec.ops.rad2deg(self.inner), self.spec)

    def atan2(
        self: "TrigonometryMethods[B, D, Float]", other: "Tensor[B, D, Float] | torch.Tensor"
    ) -> "Tensor[B, D, Float]":
        """The angle of the point (other, self), in -pi .. pi. `[..] -> [..]`, sizes equal or 1. Torch: `torch.atan2`.

        Differs: equal ranks, no promotion.
        """
        spec = self.spec
        value = tensor_operand("atan2", spec, other)
        return like(computed("atan2", spec.ops.atan2, self.inner, value), spec)
