"""Element-wise functions of Float tensors."""

from typing import Protocol

from torch import Tensor


class FloatMathOps(Protocol):
    """Element-wise functions of Float tensors. Operands have one dtype and one rank, sizes are equal or 1."""

    def exp(self, tensor: Tensor, /) -> Tensor:
        """e^x."""
        ...

    def log(self, tensor: Tensor, /) -> Tensor:
        """The natural logarithm."""
        ...

    def log1p(self, tensor: Tensor, /) -> Tensor:
        """log(1 + x)."""
        ...

    def sqrt(self, tensor: Tensor, /) -> Tensor:
        """The square root."""
        ...

    def recip(self, tensor: Tensor, /) -> Tensor:
        """1 / x."""
        ...

    def erf(self, tensor: Tensor, /) -> Tensor:
        """The error function."""
        ...

    def round(self, tensor: Tensor, /) -> Tensor:
        """The nearest whole number; the even one of two."""
        ...

    def floor(self, tensor: Tensor, /) -> Tensor:
        """The largest whole number that is not above x."""
        ...

    def ceil(self, tensor: Tensor, /) -> Tensor:
        """The smallest whole number that is not below x."""
        ...

    def trunc(self, tensor: Tensor, /) -> Tensor:
        """The whole part."""
        ...

    def cos(self, tensor: Tensor, /) -> Tensor:
        """The cosine of radians."""
        ...

    def sin(self, tensor: Tensor, /) -> Tensor:
        """The sine of radians."""
        ...

    def tan(self, tensor: Tensor, /) -> Tensor:
        """The tangent of radians."""
        ...

    def cosh(self, tensor: Tensor, /) -> Tensor:
        """The hyperbolic cosine."""
        ...

    def sinh(self, tensor: Tensor, /) -> Tensor:
        """The hyperbolic sine."""
        ...

    def tanh(self, tensor: Tensor, /) -> Tensor:
        """The hyperbolic tangent."""
        ...

    def acos(self, tensor: Tensor, /) -> Tensor:
        """The inverse of cos, in radians."""
        ...

    def asin(self, tensor: Tensor, /) -> Tensor:
        """The inverse of sin, in radians."""
        ...

    def atan(self, tensor: Tensor, /) -> Tensor:
        """The inverse of tan, in radians."""
        ...

    def acosh(self, tensor: Tensor, /) -> Tensor:
        """The inverse of cosh."""
        ...

    def asinh(self, tensor: Tensor, /) -> Tensor:
        """The inverse of sinh."""
        ...

    def atanh(self, tensor: Tensor, /) -> Tensor:
        """The inverse of tanh."""
        ...

    def deg2rad(self, tensor: Tensor, /) -> Tensor:
        """Degrees as radians."""
        ...

    def rad2deg(self, tensor: Tensor, /) -> Tensor:
        """Radians as degrees."""
        ...

    def is_nan(self, tensor: Tensor, /) -> Tensor:
        """Where the element is NaN; Bool."""
        ...

    def is_inf(self, tensor: Tensor, /) -> Tensor:
        """Where the element is infinite; Bool."""
        ...

    def is_finite(self, tensor: Tensor, /) -> Tensor:
        """Where the element is neither infinite nor NaN; Bool."""
        ...

    def powf(self, lhs: Tensor, rhs: Tensor | float, /) -> Tensor:
        """lhs to the power of rhs."""
        ...

    def rdiv(self, tensor: Tensor, scalar: float, /) -> Tensor:
        """(1 / tensor) * scalar."""
        ...

    def fmod(self, lhs: Tensor, rhs: Tensor | float, /) -> Tensor:
        """lhs - rhs * trunc(lhs / rhs): the sign of lhs."""
        ...

    def atan2(self, lhs: Tensor, rhs: Tensor, /) -> Tensor:
        """The angle of the point (rhs, lhs), in radians."""
        ...

    def hypot(self, lhs: Tensor, rhs: Tensor, /) -> Tensor:
        """sqrt(lhs^2 + rhs^2)."""
        ...

    def contains_nan(self, tensor: Tensor, /) -> Tensor:
        """Whether any element is NaN; Bool, `[1]`."""
        ...

    def is_close(self, lhs: Tensor, rhs: Tensor, rtol: float, atol: float, /) -> Tensor:
        """Where |lhs - rhs| <= atol + rtol * |rhs|, or both are the same infinity; Bool."""
        ...

    def all_close(self, lhs: Tensor, rhs: Tensor, rtol: float, atol: float, /) -> bool:
        """Whether all elements are close, on the host."""
        ...
