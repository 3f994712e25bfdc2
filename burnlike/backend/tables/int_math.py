"""Bitwise functions of Int tensors."""

from typing import Protocol

from torch import Tensor


class IntMathOps(Protocol):
    """Bitwise functions of Int tensors. Operands have one dtype and one rank, sizes are equal or 1."""

    @staticmethod
    def bitwise_and(lhs: Tensor, rhs: Tensor | int, /) -> Tensor:
        """lhs & rhs."""
        ...

    @staticmethod
    def bitwise_or(lhs: Tensor, rhs: Tensor | int, /) -> Tensor:
        """lhs | rhs."""
        ...

    @staticmethod
    def bitwise_xor(lhs: Tensor, rhs: Tensor | int, /) -> Tensor:
        """lhs ^ rhs."""
        ...

    @staticmethod
    def bitwise_left_shift(lhs: Tensor, rhs: Tensor | int, /) -> Tensor:
        """lhs << rhs."""
        ...

    @staticmethod
    def bitwise_right_shift(lhs: Tensor, rhs: Tensor | int, /) -> Tensor:
        """lhs >> rhs; the sign is kept."""
        ...

    @staticmethod
    def bitwise_not(tensor: Tensor, /) -> Tensor:
        """All bits inverted."""
        ...
