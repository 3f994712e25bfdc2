"""Bitwise functions of Int tensors."""

from typing import Protocol

from torch import Tensor


class IntMathOps(Protocol):
    """Bitwise functions of Int tensors. Operands have one dtype and one rank, sizes are equal or 1."""

    def bitwise_and(self, lhs: Tensor, rhs: Tensor | int, /) -> Tensor:
        """lhs & rhs."""
        ...

    def bitwise_or(self, lhs: Tensor, rhs: Tensor | int, /) -> Tensor:
        """lhs | rhs."""
        ...

    def bitwise_xor(self, lhs: Tensor, rhs: Tensor | int, /) -> Tensor:
        """lhs ^ rhs."""
        ...

    def bitwise_left_shift(self, lhs: Tensor, rhs: Tensor | int, /) -> Tensor:
        """lhs << rhs."""
        ...

    def bitwise_right_shift(self, lhs: Tensor, rhs: Tensor | int, /) -> Tensor:
        """lhs >> rhs; the sign is kept."""
        ...

    def bitwise_not(self, tensor: Tensor, /) -> Tensor:
        """All bits inverted."""
        ...
