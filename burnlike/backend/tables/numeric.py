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

    def add(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs + rhs."""
        ...

    def sub(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs - rhs."""
        ...

    def rsub(self, tensor: Tensor, scalar: Scalar, /) -> Tensor:
        """scalar - tensor."""
        ...

    def mul(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs * rhs."""
        ...

    def div(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs / rhs; Int truncates toward zero."""
        ...

    def remainder(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs - rhs * floor(lhs / rhs): the sign of rhs."""
        ...

    def rremainder(self, tensor: Tensor, scalar: Scalar, /) -> Tensor:
        """The remainder of a scalar by each element."""
        ...

    def powi(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs to the power of rhs; Int truncates toward zero where rhs is negative."""
        ...

    def rpowi(self, tensor: Tensor, scalar: Scalar, /) -> Tensor:
        """A scalar to the power of each element."""
        ...

    def neg(self, tensor: Tensor, /) -> Tensor:
        """-x."""
        ...

    def sign(self, tensor: Tensor, /) -> Tensor:
        """-1, 0 or 1; 0 for NaN."""
        ...

    def abs(self, tensor: Tensor, /) -> Tensor:
        """|x|."""
        ...

    def square(self, tensor: Tensor, /) -> Tensor:
        """x * x."""
        ...

    def matmul(self, lhs: Tensor, rhs: Tensor, /) -> Tensor:
        """`[.., m, k] x [.., k, n] -> [.., m, n]`, of one rank, 2 or more; batch sizes are equal or 1."""
        ...

    def dot(self, lhs: Tensor, rhs: Tensor, /) -> Tensor:
        """`[n] x [n] -> [1]`."""
        ...

    def clamp(self, tensor: Tensor, minimum: Scalar, maximum: Scalar, /) -> Tensor:
        """Not above `maximum`, then not below `minimum`."""
        ...

    def clamp_min(self, tensor: Tensor, minimum: Scalar, /) -> Tensor:
        """Not below `minimum`."""
        ...

    def clamp_max(self, tensor: Tensor, maximum: Scalar, /) -> Tensor:
        """Not above `maximum`."""
        ...

    def max_pair(self, lhs: Tensor, rhs: Tensor, /) -> Tensor:
        """rhs where lhs < rhs, else lhs."""
        ...

    def min_pair(self, lhs: Tensor, rhs: Tensor, /) -> Tensor:
        """rhs where rhs < lhs, else lhs."""
        ...
