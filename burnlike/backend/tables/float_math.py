"""Element-wise functions of Float tensors."""

from typing import Protocol

from torch import Tensor


class FloatMathOps(Protocol):
    """Element-wise functions of Float tensors. Operands have one dtype and one rank, sizes are equal or 1."""

    @staticmethod
    def exp(tensor: Tensor, /) -> Tensor:
        """e^x."""
        ...

    @staticmethod
    def log(tensor: Tensor, /) -> Tensor:
        """The natural logarithm."""
        ...

    @staticmethod
    def log1p(tensor: Tensor, /) -> Tensor:
        """log(1 + x)."""
        ...

    @staticmethod
    def sqrt(tensor: Tensor, /) -> Tensor:
        """The square root."""
        ...

    @staticmethod
    def recip(tensor: Tensor, /) -> Tensor:
        """1 / x."""
        ...

    @staticmethod
    def erf(tensor: Tensor, /) -> Tensor:
        """The error function."""
        ...

    @staticmethod
    def round(tensor: Tensor, /) -> Tensor:
        """The nearest whole number; the even one of two."""
        ...

    @staticmethod
    def floor(tensor: Tensor, /) -> Tensor:
        """The largest whole number that is not above x."""
        ...

    @staticmethod
    def ceil(tensor: Tensor, /) -> Tensor:
        """The smallest whole number that is not below x."""
        ...

    @staticmethod
    def trunc(tensor: Tensor, /) -> Tensor:
        """The whole part."""
        ...

    @staticmethod
    def cos(tensor: Tensor, /) -> Tensor:
        """The cosine of radians."""
        ...

    @staticmethod
    def sin(tensor: Tensor, /) -> Tensor:
        """The sine of radians."""
        ...

    @staticmethod
    def tan(tensor: Tensor, /) -> Tensor:
        """The tangent of radians."""
        ...

    @staticmethod
    def cosh(tensor: Tensor, /) -> Tensor:
        """The hyperbolic cosine."""
        ...

    @staticmethod
    def sinh(tensor: Tensor, /) -> Tensor:
        """The hyperbolic sine."""
        ...

    @staticmethod
    def tanh(tensor: Tensor, /) -> Tensor:
        """The hyperbolic tangent."""
        ...

    @staticmethod
    def acos(tensor: Tensor, /) -> Tensor:
        """The inverse of cos, in radians."""
        ...

    @staticmethod
    def asin(tensor: Tensor, /) -> Tensor:
        """The inverse of sin, in radians."""
        ...

    @staticmethod
    def atan(tensor: Tensor, /) -> Tensor:
        """The inverse of tan, in radians."""
        ...

    @staticmethod
    def acosh(tensor: Tensor, /) -> Tensor:
        """The inverse of cosh."""
        ...

    @staticmethod
    def asinh(tensor: Tensor, /) -> Tensor:
        """The inverse of sinh."""
        ...

    @staticmethod
    def atanh(tensor: Tensor, /) -> Tensor:
        """The inverse of tanh."""
        ...

    @staticmethod
    def deg2rad(tensor: Tensor, /) -> Tensor:
        """Degrees as radians."""
        ...

    @staticmethod
    def rad2deg(tensor: Tensor, /) -> Tensor:
        """Radians as degrees."""
        ...

    @staticmethod
    def is_nan(tensor: Tensor, /) -> Tensor:
        """Where the element is NaN; Bool."""
        ...

    @staticmethod
    def is_inf(tensor: Tensor, /) -> Tensor:
        """Where the element is infinite; Bool."""
        ...

    @staticmethod
    def is_finite(tensor: Tensor, /) -> Tensor:
        """Where the element is neither infinite nor NaN; Bool."""
        ...

    @staticmethod
    def powf(lhs: Tensor, rhs: Tensor | float, /) -> Tensor:
        """lhs to the power of rhs."""
        ...

    @staticmethod
    def rdiv(tensor: Tensor, scalar: float, /) -> Tensor:
        """(1 / tensor) * scalar."""
        ...

    @staticmethod
    def fmod(lhs: Tensor, rhs: Tensor | float, /) -> Tensor:
        """lhs - rhs * trunc(lhs / rhs): the sign of lhs."""
        ...

    @staticmethod
    def atan2(lhs: Tensor, rhs: Tensor, /) -> Tensor:
        """The angle of the point (rhs, lhs), in radians."""
        ...

    @staticmethod
    def hypot(lhs: Tensor, rhs: Tensor, /) -> Tensor:
        """sqrt(lhs^2 + rhs^2)."""
        ...

    @staticmethod
    def contains_nan(tensor: Tensor, /) -> Tensor:
        """Whether any element is NaN; Bool, `[1]`."""
        ...

    @staticmethod
    def is_close(lhs: Tensor, rhs: Tensor, rtol: float, atol: float, /) -> Tensor:
        """Where |lhs - rhs| <= atol + rtol * |rhs|, or both are the same infinity; Bool."""
        ...

    @staticmethod
    def all_close(lhs: Tensor, rhs: Tensor, rtol: float, atol: float, /) -> bool:
        """Whether all elements are close, on the host."""
        ...
