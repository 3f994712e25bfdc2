"""Functions of numbers (Float and Int), and of what has an order."""

from typing import Protocol

from torch import Tensor

from .basic import BasicOps

Scalar = float | int


class NumericOps(BasicOps, Protocol):
    """Arithmetic. Operands have one dtype and one rank; sizes are equal or 1."""

    @staticmethod
    def add(lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs + rhs; a scalar was converted to the kind of lhs."""
        ...
