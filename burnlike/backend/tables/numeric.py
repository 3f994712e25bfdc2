"""Arithmetic of numbers, Float and Int."""

from typing import Protocol

from torch import Tensor

from .basic import BasicOps
from .creation import NumericCreationOps
from .padding import PaddingOps

Scalar = float | int


class NumericOps(BasicOps, NumericCreationOps, PaddingOps, Protocol):
    """Arithmetic. Operands have one dtype and one rank, sizes are equal or 1; a scalar is of the kind of the tensor.

    Results have the dtype of the operands. A name that begins with `r` takes a scalar on the left of its operator.
    """

    @staticmethod
    def add(lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs + rhs."""
        ...

    @staticmethod
    def sub(lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs - rhs."""
        ...

    @staticmethod
    def rsub(tensor: Tensor, scalar: Scalar, /) -> Tensor:
        """scalar - tensor."""
        ...

    @staticmethod
    def mul(lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs * rhs."""
        ...

    @staticmethod
    def div(lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs / rhs; Int truncates toward zero."""
        ...

    @staticmethod
    def remainder(lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs - rhs * floor(lhs / rhs): the sign of rhs."""
        ...

    @staticmethod
    def rremainder(tensor: Tensor, scalar: Scalar, /) -> Tensor:
        """The remainder of a scalar by each element."""
        ...

    @staticmethod
    def powi(lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs to the power of rhs; Int truncates toward zero where rhs is negative."""
        ...

    @staticmethod
    def rpowi(tensor: Tensor, scalar: Scalar, /) -> Tensor:
        """A scalar to the power of each element."""
        ...

    @staticmethod
    def neg(tensor: Tensor, /) -> Tensor:
        """-x."""
        ...

    @staticmethod
    def sign(tensor: Tensor, /) -> Tensor:
        """-1, 0 or 1; 0 for NaN."""
        ...

    @staticmethod
    def abs(tensor: Tensor, /) -> Tensor:
        """|x|."""
        ...

    @staticmethod
    def square(tensor: Tensor, /) -> Tensor:
        """x * x."""
        ...

    @staticmethod
    def matmul(lhs: Tensor, rhs: Tensor, /) -> Tensor:
        """`[.., m, k] x [.., k, n] -> [.., m, n]`, of one rank, 2 or more; batch sizes are equal or 1."""
        ...

    @staticmethod
    def dot(lhs: Tensor, rhs: Tensor, /) -> Tensor:
        """`[n] x [n] -> [1]`."""
        ...

    @staticmethod
    def clamp(tensor: Tensor, minimum: Scalar, maximum: Scalar, /) -> Tensor:
        """Not above `maximum`, then not below `minimum`."""
        ...

    @staticmethod
    def clamp_min(tensor: Tensor, minimum: Scalar, /) -> Tensor:
        """Not below `minimum`."""
        ...

    @staticmethod
    def clamp_max(tensor: Tensor, maximum: Scalar, /) -> Tensor:
        """Not above `maximum`."""
        ...

    @staticmethod
    def max_pair(lhs: Tensor, rhs: Tensor, /) -> Tensor:
        """rhs where lhs < rhs, else lhs."""
        ...

    @staticmethod
    def min_pair(lhs: Tensor, rhs: Tensor, /) -> Tensor:
        """rhs where rhs < lhs, else lhs."""
        ...
