"""Arithmetic of numbers (Float and Int), element-wise functions of Float, bitwise ones of Int."""

# pyright: reportReturnType=false

from typing import Protocol

from torch import Tensor

Scalar = float | int


class ArithmeticOps(Protocol):
    """Arithmetic. Operands have one dtype and one rank, sizes are equal or 1; a scalar is of the kind of the tensor.

    Results have the dtype of the operands. A name that begins with `r` takes a scalar on the left of its operator.
    """

    def add(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs + rhs."""

    def sub(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs - rhs."""

    def rsub(self, tensor: Tensor, scalar: Scalar, /) -> Tensor:
        """scalar - tensor."""

    def mul(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs * rhs."""

    def div(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs / rhs; Int truncates toward zero."""

    def remainder(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs - rhs * floor(lhs / rhs): the sign of rhs."""

    def rremainder(self, tensor: Tensor, scalar: Scalar, /) -> Tensor:
        """The remainder of a scalar by each element."""

    def powi(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs to the power of rhs; Int truncates toward zero where rhs is negative."""

    def rpowi(self, tensor: Tensor, scalar: Scalar, /) -> Tensor:
        """A scalar to the power of each element."""

    def neg(self, tensor: Tensor, /) -> Tensor:
        """-x."""

    def sign(self, tensor: Tensor, /) -> Tensor:
        """-1, 0 or 1; 0 for NaN."""

    def abs(self, tensor: Tensor, /) -> Tensor:
        """|x|."""

    def square(self, tensor: Tensor, /) -> Tensor:
        """x * x."""

    def matmul(self, lhs: Tensor, rhs: Tensor, /) -> Tensor:
        """`[.., m, k] x [.., k, n] -> [.., m, n]`, of one rank, 2 or more; batch sizes are equal or 1."""

    def dot(self, lhs: Tensor, rhs: Tensor, /) -> Tensor:
        """`[n] x [n] -> [1]`."""

    def clamp(self, tensor: Tensor, minimum: Scalar, maximum: Scalar, /) -> Tensor:
        """Not above `maximum`, then not below `minimum`."""

    def clamp_min(self, tensor: Tensor, minimum: Scalar, /) -> Tensor:
        """Not below `minimum`."""

    def clamp_max(self, tensor: Tensor, maximum: Scalar, /) -> Tensor:
        """Not above `maximum`."""

    def max_pair(self, lhs: Tensor, rhs: Tensor, /) -> Tensor:
        """rhs where lhs < rhs, else lhs."""

    def min_pair(self, lhs: Tensor, rhs: Tensor, /) -> Tensor:
        """rhs where rhs < lhs, else lhs."""


class FloatMathOps(Protocol):
    """Element-wise functions of Float tensors. Operands have one dtype and one rank, sizes are equal or 1."""

    def exp(self, tensor: Tensor, /) -> Tensor:
        """e^x."""

    def log(self, tensor: Tensor, /) -> Tensor:
        """The natural logarithm."""

    def log1p(self, tensor: Tensor, /) -> Tensor:
        """log(1 + x)."""

    def sqrt(self, tensor: Tensor, /) -> Tensor:
        """The square root."""

    def recip(self, tensor: Tensor, /) -> Tensor:
        """1 / x."""

    def erf(self, tensor: Tensor, /) -> Tensor:
        """The error function."""

    def round(self, tensor: Tensor, /) -> Tensor:
        """The nearest whole number; the even one of two."""

    def floor(self, tensor: Tensor, /) -> Tensor:
        """The largest whole number that is not above x."""

    def ceil(self, tensor: Tensor, /) -> Tensor:
        """The smallest whole number that is not below x."""

    def trunc(self, tensor: Tensor, /) -> Tensor:
        """The whole part."""

    def cos(self, tensor: Tensor, /) -> Tensor:
        """The cosine of radians."""

    def sin(self, tensor: Tensor, /) -> Tensor:
        """The sine of radians."""

    def tan(self, tensor: Tensor, /) -> Tensor:
        """The tangent of radians."""

    def cosh(self, tensor: Tensor, /) -> Tensor:
        """The hyperbolic cosine."""

    def sinh(self, tensor: Tensor, /) -> Tensor:
        """The hyperbolic sine."""

    def tanh(self, tensor: Tensor, /) -> Tensor:
        """The hyperbolic tangent."""

    def acos(self, tensor: Tensor, /) -> Tensor:
        """The inverse of cos, in radians."""

    def asin(self, tensor: Tensor, /) -> Tensor:
        """The inverse of sin, in radians."""

    def atan(self, tensor: Tensor, /) -> Tensor:
        """The inverse of tan, in radians."""

    def acosh(self, tensor: Tensor, /) -> Tensor:
        """The inverse of cosh."""

    def asinh(self, tensor: Tensor, /) -> Tensor:
        """The inverse of sinh."""

    def atanh(self, tensor: Tensor, /) -> Tensor:
        """The inverse of tanh."""

    def deg2rad(self, tensor: Tensor, /) -> Tensor:
        """Degrees as radians."""

    def rad2deg(self, tensor: Tensor, /) -> Tensor:
        """Radians as degrees."""

    def is_nan(self, tensor: Tensor, /) -> Tensor:
        """Where the element is NaN; Bool."""

    def is_inf(self, tensor: Tensor, /) -> Tensor:
        """Where the element is infinite; Bool."""

    def is_finite(self, tensor: Tensor, /) -> Tensor:
        """Where the element is neither infinite nor NaN; Bool."""

    def powf(self, lhs: Tensor, rhs: Tensor | float, /) -> Tensor:
        """lhs to the power of rhs."""

    def rdiv(self, tensor: Tensor, scalar: float, /) -> Tensor:
        """(1 / tensor) * scalar."""

    def fmod(self, lhs: Tensor, rhs: Tensor | float, /) -> Tensor:
        """lhs - rhs * trunc(lhs / rhs): the sign of lhs."""

    def atan2(self, lhs: Tensor, rhs: Tensor, /) -> Tensor:
        """The angle of the point (rhs, lhs), in radians."""

    def hypot(self, lhs: Tensor, rhs: Tensor, /) -> Tensor:
        """sqrt(lhs^2 + rhs^2)."""

    def contains_nan(self, tensor: Tensor, /) -> Tensor:
        """Whether any element is NaN; Bool, `[1]`."""

    def is_close(self, lhs: Tensor, rhs: Tensor, rtol: float, atol: float, /) -> Tensor:
        """Where |lhs - rhs| <= atol + rtol * |rhs|, or both are the same infinity; Bool."""

    def all_close(self, lhs: Tensor, rhs: Tensor, rtol: float, atol: float, /) -> bool:
        """Whether all elements are close, on the host."""


class IntMathOps(Protocol):
    """Bitwise functions of Int tensors. Operands have one dtype and one rank, sizes are equal or 1."""

    def bitwise_and(self, lhs: Tensor, rhs: Tensor | int, /) -> Tensor:
        """lhs & rhs."""

    def bitwise_or(self, lhs: Tensor, rhs: Tensor | int, /) -> Tensor:
        """lhs | rhs."""

    def bitwise_xor(self, lhs: Tensor, rhs: Tensor | int, /) -> Tensor:
        """lhs ^ rhs."""

    def bitwise_left_shift(self, lhs: Tensor, rhs: Tensor | int, /) -> Tensor:
        """lhs << rhs."""

    def bitwise_right_shift(self, lhs: Tensor, rhs: Tensor | int, /) -> Tensor:
        """lhs >> rhs; the sign is kept."""

    def bitwise_not(self, tensor: Tensor, /) -> Tensor:
        """All bits inverted."""
