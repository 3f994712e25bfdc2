"""Arithmetic, comparisons and logic; element-wise functions of Float, bitwise ones of Int."""

# pyright: reportReturnType=false

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

Scalar = float | int


class ArithmeticOps(Protocol):
    """Arithmetic. Operands have one dtype and one rank, sizes are equal or 1; a scalar is of the kind of the tensor.

    Results have the dtype of the operands. A name that begins with `r` takes a scalar on the left of its operator.
    """

    def add(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor: ...
    def sub(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor: ...
    def rsub(self, tensor: Tensor, scalar: Scalar, /) -> Tensor: ...
    def mul(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor: ...
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

    def neg(self, tensor: Tensor, /) -> Tensor: ...
    def sign(self, tensor: Tensor, /) -> Tensor:
        """-1, 0 or 1; 0 for NaN."""

    def abs(self, tensor: Tensor, /) -> Tensor: ...
    def square(self, tensor: Tensor, /) -> Tensor: ...
    def matmul(self, lhs: Tensor, rhs: Tensor, /) -> Tensor:
        """`[.., m, k] x [.., k, n] -> [.., m, n]`, of one rank, 2 or more; batch sizes are equal or 1."""

    def dot(self, lhs: Tensor, rhs: Tensor, /) -> Tensor:
        """`[n] x [n] -> [1]`."""

    def clamp(self, tensor: Tensor, minimum: Scalar, maximum: Scalar, /) -> Tensor:
        """Not above `maximum`, then not below `minimum`."""

    def clamp_min(self, tensor: Tensor, minimum: Scalar, /) -> Tensor: ...
    def clamp_max(self, tensor: Tensor, maximum: Scalar, /) -> Tensor: ...
    def max_pair(self, lhs: Tensor, rhs: Tensor, /) -> Tensor:
        """rhs where lhs < rhs, else lhs."""

    def min_pair(self, lhs: Tensor, rhs: Tensor, /) -> Tensor:
        """rhs where rhs < lhs, else lhs."""


class FloatMathOps(Protocol):
    """Element-wise functions of Float tensors. Operands have one dtype and one rank, sizes are equal or 1."""

    def exp(self, tensor: Tensor, /) -> Tensor: ...
    def log(self, tensor: Tensor, /) -> Tensor: ...
    def log1p(self, tensor: Tensor, /) -> Tensor: ...
    def sqrt(self, tensor: Tensor, /) -> Tensor: ...
    def recip(self, tensor: Tensor, /) -> Tensor:
        """1 / x."""

    def erf(self, tensor: Tensor, /) -> Tensor: ...
    def round(self, tensor: Tensor, /) -> Tensor:
        """The nearest whole number; the even one of two."""

    def floor(self, tensor: Tensor, /) -> Tensor: ...
    def ceil(self, tensor: Tensor, /) -> Tensor: ...
    def trunc(self, tensor: Tensor, /) -> Tensor:
        """The whole part."""

    def cos(self, tensor: Tensor, /) -> Tensor: ...
    def sin(self, tensor: Tensor, /) -> Tensor: ...
    def tan(self, tensor: Tensor, /) -> Tensor: ...
    def cosh(self, tensor: Tensor, /) -> Tensor: ...
    def sinh(self, tensor: Tensor, /) -> Tensor: ...
    def tanh(self, tensor: Tensor, /) -> Tensor: ...
    def acos(self, tensor: Tensor, /) -> Tensor: ...
    def asin(self, tensor: Tensor, /) -> Tensor: ...
    def atan(self, tensor: Tensor, /) -> Tensor: ...
    def acosh(self, tensor: Tensor, /) -> Tensor: ...
    def asinh(self, tensor: Tensor, /) -> Tensor: ...
    def atanh(self, tensor: Tensor, /) -> Tensor: ...
    def deg2rad(self, tensor: Tensor, /) -> Tensor: ...
    def rad2deg(self, tensor: Tensor, /) -> Tensor: ...
    def is_nan(self, tensor: Tensor, /) -> Tensor: ...
    def is_inf(self, tensor: Tensor, /) -> Tensor: ...
    def is_finite(self, tensor: Tensor, /) -> Tensor: ...
    def powf(self, lhs: Tensor, rhs: Tensor | float, /) -> Tensor: ...
    def rdiv(self, tensor: Tensor, scalar: float, /) -> Tensor:
        """(1 / tensor) * scalar."""

    def fmod(self, lhs: Tensor, rhs: Tensor | float, /) -> Tensor:
        """lhs - rhs * trunc(lhs / rhs): the sign of lhs."""

    def atan2(self, lhs: Tensor, rhs: Tensor, /) -> Tensor:
        """The angle of the point (rhs, lhs), in radians."""

    def hypot(self, lhs: Tensor, rhs: Tensor, /) -> Tensor: ...
    def contains_nan(self, tensor: Tensor, /) -> Tensor:
        """Whether any element is NaN; Bool, `[1]`."""

    def is_close(self, lhs: Tensor, rhs: Tensor, rtol: float, atol: float, /) -> Tensor:
        """Where |lhs - rhs| <= atol + rtol * |rhs|, or both are the same infinity; Bool."""

    def all_close(self, lhs: Tensor, rhs: Tensor, rtol: float, atol: float, /) -> bool:
        """Whether all elements are close, on the host."""


class IntMathOps(Protocol):
    """Bitwise functions of Int tensors. Operands have one dtype and one rank, sizes are equal or 1."""

    def bitwise_and(self, lhs: Tensor, rhs: Tensor | int, /) -> Tensor: ...
    def bitwise_or(self, lhs: Tensor, rhs: Tensor | int, /) -> Tensor: ...
    def bitwise_xor(self, lhs: Tensor, rhs: Tensor | int, /) -> Tensor: ...
    def bitwise_left_shift(self, lhs: Tensor, rhs: Tensor | int, /) -> Tensor: ...
    def bitwise_right_shift(self, lhs: Tensor, rhs: Tensor | int, /) -> Tensor:
        """lhs >> rhs; the sign is kept."""

    def bitwise_not(self, tensor: Tensor, /) -> Tensor: ...


class ComparisonOps(Protocol):
    """Equality and reductions to Bool, of Float, Int and Bool tensors. Sizes of operands are equal or 1."""

    def equal(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor: ...
    def not_equal(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor: ...
    def any(self, tensor: Tensor, /) -> Tensor:
        """`[1]`: whether an element is not zero; NaN is not zero."""

    def any_dim(self, tensor: Tensor, dim: int, /) -> Tensor:
        """Whether an element along `dim` is not zero; the dimension keeps size 1."""

    def all(self, tensor: Tensor, /) -> Tensor:
        """`[1]`: whether no element is zero."""

    def all_dim(self, tensor: Tensor, dim: int, /) -> Tensor:
        """Whether no element along `dim` is zero; the dimension keeps size 1."""


class InequalityOps(Protocol):
    """Comparisons by order, of Float and Int tensors. Sizes of operands are equal or 1."""

    def greater(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor: ...
    def greater_equal(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor: ...
    def lower(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor: ...
    def lower_equal(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor: ...


class LogicOps(Protocol):
    """Functions of Bool tensors only. Sizes of operands are equal or 1."""

    def bool_not(self, tensor: Tensor, /) -> Tensor: ...
    def bool_and(self, lhs: Tensor, rhs: Tensor | bool, /) -> Tensor: ...
    def bool_or(self, lhs: Tensor, rhs: Tensor | bool, /) -> Tensor: ...
    def bool_xor(self, lhs: Tensor, rhs: Tensor | bool, /) -> Tensor: ...
    def argwhere(self, tensor: Tensor, dtype: torch.dtype, /) -> Tensor:
        """`[n, rank]`: the coordinates of what is set, row by row, as `dtype`."""

    def nonzero(self, tensor: Tensor, dtype: torch.dtype, /) -> list[Tensor]:
        """`[n]` per dimension: the coordinates of what is set, as `dtype`; no tensors where nothing is."""

    def triu_mask(self, shape: Sequence[int], offset: int, device: torch.device, /) -> Tensor:
        """`[1, .., rows, columns]`, set below the diagonal `offset`."""

    def tril_mask(self, shape: Sequence[int], offset: int, device: torch.device, /) -> Tensor:
        """`[1, .., rows, columns]`, set above the diagonal `offset`."""

    def diag_mask(self, shape: Sequence[int], offset: int, device: torch.device, /) -> Tensor:
        """`[1, .., rows, columns]`, set but on the diagonal `offset`."""
