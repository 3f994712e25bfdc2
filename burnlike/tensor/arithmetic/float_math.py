"""Element-wise functions of Float tensors."""

from typing import Any

from ..core.base import B, D, FloatLike, FloatOperand, Floats, K, Tensor, TensorBase, like, wrap
from ..core.kinds import D1, Bool, Float
from ..core.operands import computed, fail, mixed, tensor_operand
from .numeric import with_scalar


class FloatMethods(TensorBase[B, D, K]):
    """Exponents, roots, rounding, functions of two tensors, angles (in radians), NaN, infinities and closeness."""

    __slots__ = ()

    def exp(self: "Floats[B, D]") -> "Tensor[B, D, Float]":
        """e to the power of each element. `[..] -> [..]`. Torch: `torch.exp`."""
        return like(self.spec.ops.exp(self.inner), self.spec)

    def log(self: "Floats[B, D]") -> "Tensor[B, D, Float]":
        """The natural logarithm. `[..] -> [..]`. Torch: `torch.log`."""
        return like(self.spec.ops.log(self.inner), self.spec)

    def log1p(self: "Floats[B, D]") -> "Tensor[B, D, Float]":
        """log(1 + x), exact near 0. `[..] -> [..]`. Torch: `torch.log1p`."""
        return like(self.spec.ops.log1p(self.inner), self.spec)

    def sqrt(self: "Floats[B, D]") -> "Tensor[B, D, Float]":
        """The square root; NaN of negative numbers. `[..] -> [..]`. Torch: `torch.sqrt`."""
        return wrap(self.spec.ops.sqrt(self.inner), self.spec)

    def recip(self: "Floats[B, D]") -> "Tensor[B, D, Float]":
        """1 / x. `[..] -> [..]`. Torch: `torch.reciprocal`."""
        return like(self.spec.ops.recip(self.inner), self.spec)

    def erf(self: "Floats[B, D]") -> "Tensor[B, D, Float]":
        """The error function. `[..] -> [..]`. Torch: `torch.erf`."""
        return wrap(self.spec.ops.erf(self.inner), self.spec)

    def round(self: "Floats[B, D]") -> "Tensor[B, D, Float]":
        """The nearest whole number; of two the even one. `[..] -> [..]`. Torch: `torch.round`."""
        return wrap(self.spec.ops.round(self.inner), self.spec)

    def floor(self: "Floats[B, D]") -> "Tensor[B, D, Float]":
        """The largest whole number that is not above x. `[..] -> [..]`. Torch: `torch.floor`."""
        return wrap(self.spec.ops.floor(self.inner), self.spec)

    def ceil(self: "Floats[B, D]") -> "Tensor[B, D, Float]":
        """The smallest whole number that is not below x. `[..] -> [..]`. Torch: `torch.ceil`."""
        return wrap(self.spec.ops.ceil(self.inner), self.spec)

    def trunc(self: "Floats[B, D]") -> "Tensor[B, D, Float]":
        """The whole part: rounded toward zero. `[..] -> [..]`. Torch: `torch.trunc`."""
        return wrap(self.spec.ops.trunc(self.inner), self.spec)

    def powf(self: "Floats[B, D]", other: "FloatOperand[B, D]") -> "Tensor[B, D, Float]":
        """`x ** y`. `[..], [..] -> [..]`, sizes equal or 1. Torch: `torch.pow`. Differs: equal ranks, no promotion."""
        spec = self.spec
        value: Any = other
        if type(value) is not spec.tensor or value.spec is not spec:
            return mixed("powf", self, value)
        try:
            return like(spec.ops.powf(self.inner, value.inner), spec)
        except Exception as error:
            fail("powf", error, self.inner, value.inner)

    def powf_scalar(self: "Floats[B, D]", scalar: float) -> "Tensor[B, D, Float]":
        """The power with a number. `[..] -> [..]`. Torch: `torch.pow(x, scalar)`."""
        return with_scalar("powf", self, scalar)

    def fmod(self: "Floats[B, D]", other: "FloatOperand[B, D]") -> "Tensor[B, D, Float]":
        """x - y * trunc(x / y), with the sign of x; x where y is infinite. `[..] -> [..]`, sizes equal or 1.
        Torch: `torch.fmod`. Differs: equal ranks, no promotion.
        """
        return mixed("fmod", self, other)

    def fmod_scalar(self: "Floats[B, D]", scalar: float) -> "Tensor[B, D, Float]":
        """The remainder by a number, with the sign of x. `[..] -> [..]`. Torch: `torch.fmod(x, scalar)`."""
        return with_scalar("fmod", self, scalar)

    def hypot(self: "Floats[B, D]", other: "FloatLike[B, D]") -> "Tensor[B, D, Float]":
        """sqrt(x^2 + y^2), no overflow. `[..] -> [..]`, sizes equal or 1. Torch: `torch.hypot`.
        Differs: equal ranks, no promotion.
        """
        spec = self.spec
        value = tensor_operand("hypot", spec, other)
        return like(computed("hypot", spec.ops.hypot, self.inner, value), spec)

    def cos(self: "Floats[B, D]") -> "Tensor[B, D, Float]":
        """The cosine. `[..] -> [..]`. Torch: `torch.cos`."""
        return wrap(self.spec.ops.cos(self.inner), self.spec)

    def sin(self: "Floats[B, D]") -> "Tensor[B, D, Float]":
        """The sine. `[..] -> [..]`. Torch: `torch.sin`."""
        return wrap(self.spec.ops.sin(self.inner), self.spec)

    def tan(self: "Floats[B, D]") -> "Tensor[B, D, Float]":
        """The tangent. `[..] -> [..]`. Torch: `torch.tan`."""
        return like(self.spec.ops.tan(self.inner), self.spec)

    def cosh(self: "Floats[B, D]") -> "Tensor[B, D, Float]":
        """The hyperbolic cosine. `[..] -> [..]`. Torch: `torch.cosh`."""
        return like(self.spec.ops.cosh(self.inner), self.spec)

    def sinh(self: "Floats[B, D]") -> "Tensor[B, D, Float]":
        """The hyperbolic sine. `[..] -> [..]`. Torch: `torch.sinh`."""
        return like(self.spec.ops.sinh(self.inner), self.spec)

    def tanh(self: "Floats[B, D]") -> "Tensor[B, D, Float]":
        """The hyperbolic tangent. `[..] -> [..]`. Torch: `torch.tanh`."""
        return wrap(self.spec.ops.tanh(self.inner), self.spec)

    def acos(self: "Floats[B, D]") -> "Tensor[B, D, Float]":
        """The inverse of the cosine; NaN outside of -1 .. 1. `[..] -> [..]`. Torch: `torch.acos`."""
        return like(self.spec.ops.acos(self.inner), self.spec)

    def asin(self: "Floats[B, D]") -> "Tensor[B, D, Float]":
        """The inverse of the sine; NaN outside of -1 .. 1. `[..] -> [..]`. Torch: `torch.asin`."""
        return like(self.spec.ops.asin(self.inner), self.spec)

    def atan(self: "Floats[B, D]") -> "Tensor[B, D, Float]":
        """The inverse of the tangent. `[..] -> [..]`. Torch: `torch.atan`."""
        return wrap(self.spec.ops.atan(self.inner), self.spec)

    def acosh(self: "Floats[B, D]") -> "Tensor[B, D, Float]":
        """The inverse of the hyperbolic cosine; NaN below 1. `[..] -> [..]`. Torch: `torch.acosh`."""
        return wrap(self.spec.ops.acosh(self.inner), self.spec)

    def asinh(self: "Floats[B, D]") -> "Tensor[B, D, Float]":
        """The inverse of the hyperbolic sine. `[..] -> [..]`. Torch: `torch.asinh`."""
        return wrap(self.spec.ops.asinh(self.inner), self.spec)

    def atanh(self: "Floats[B, D]") -> "Tensor[B, D, Float]":
        """The inverse of the hyperbolic tangent; NaN outside of -1 .. 1. `[..] -> [..]`. Torch: `torch.atanh`."""
        return wrap(self.spec.ops.atanh(self.inner), self.spec)

    def deg2rad(self: "Floats[B, D]") -> "Tensor[B, D, Float]":
        """Degrees as radians. `[..] -> [..]`. Torch: `torch.deg2rad`."""
        return wrap(self.spec.ops.deg2rad(self.inner), self.spec)

    def rad2deg(self: "Floats[B, D]") -> "Tensor[B, D, Float]":
        """Radians as degrees. `[..] -> [..]`. Torch: `torch.rad2deg`."""
        return wrap(self.spec.ops.rad2deg(self.inner), self.spec)

    def atan2(self: "Floats[B, D]", other: "FloatLike[B, D]") -> "Tensor[B, D, Float]":
        """The angle of the point (other, self), in -pi .. pi. `[..] -> [..]`, sizes equal or 1. Torch: `torch.atan2`.
        Differs: equal ranks, no promotion.
        """
        spec = self.spec
        value = tensor_operand("atan2", spec, other)
        return like(computed("atan2", spec.ops.atan2, self.inner, value), spec)

    def is_nan(self: "Floats[B, D]") -> "Tensor[B, D, Bool]":
        """True for each element that is NaN. `[..] -> [..]`, Bool. Torch: `torch.isnan`."""
        return wrap(self.spec.ops.is_nan(self.inner), self.spec.bool)

    def contains_nan(self: "Floats[B, D]") -> "Tensor[B, D1, Bool]":
        """True if any element is NaN. `[..] -> [1]`, Bool. Torch: `torch.isnan(x).any()`. Differs: shape `[1]`."""
        return wrap(self.spec.ops.contains_nan(self.inner), self.spec.bool.ranks[1])

    def is_inf(self: "Floats[B, D]") -> "Tensor[B, D, Bool]":
        """True for each element that is infinite. `[..] -> [..]`, Bool. Torch: `torch.isinf`."""
        return wrap(self.spec.ops.is_inf(self.inner), self.spec.bool)

    def is_finite(self: "Floats[B, D]") -> "Tensor[B, D, Bool]":
        """True for each element that is neither infinite nor NaN. `[..] -> [..]`, Bool. Torch: `torch.isfinite`."""
        return wrap(self.spec.ops.is_finite(self.inner), self.spec.bool)

    def is_close(
        self: "Floats[B, D]", other: "FloatLike[B, D]", rtol: float | None = None, atol: float | None = None
    ) -> "Tensor[B, D, Bool]":
        """True where |x - y| <= atol + rtol * |y|, or both are the same infinity; false for NaN. `[..] -> [..]`.
        Sizes are equal or 1; rtol is 1e-5 and atol 1e-8 by default. Torch: `torch.isclose`.
        Differs: no `equal_nan`; equal ranks.
        """
        spec = self.spec
        value = tensor_operand("is_close", spec, other)
        tolerances = 1e-5 if rtol is None else rtol, 1e-8 if atol is None else atol
        return wrap(computed("is_close", spec.ops.is_close, self.inner, value, *tolerances), spec.bool)

    def all_close(
        self: "Floats[B, D]", other: "FloatLike[B, D]", rtol: float | None = None, atol: float | None = None
    ) -> bool:
        """True if all elements are close, as `is_close` says, read to the host. Torch: `torch.allclose`.
        Differs: no `equal_nan`; equal ranks.
        """
        spec = self.spec
        value = tensor_operand("all_close", spec, other)
        tolerances = 1e-5 if rtol is None else rtol, 1e-8 if atol is None else atol
        return computed("all_close", spec.ops.all_close, self.inner, value, *tolerances)
