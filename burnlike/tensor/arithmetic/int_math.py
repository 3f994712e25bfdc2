"""Bitwise functions of Int tensors."""

from ..core.base import B, D, IntOperand, K, Tensor, TensorBase, wrap
from ..core.kinds import Int
from ..core.operands import mixed
from ..core.scalars import with_scalar


class IntMethods(TensorBase[B, D, K]):
    """Bitwise functions of Int tensors."""

    __slots__ = ()

    def bitwise_and(self: "IntMethods[B, D, Int]", other: "IntOperand[B, D]") -> "Tensor[B, D, Int]":
        """x & y, bit by bit. `[..] -> [..]`, sizes equal or 1.

        Torch: `torch.bitwise_and`.
        Differs: equal ranks, no promotion.
        """
        return mixed("bitwise_and", self, other)

    def bitwise_and_scalar(self: "IntMethods[B, D, Int]", scalar: int) -> "Tensor[B, D, Int]":
        """x & scalar, bit by bit. `[..] -> [..]`. Torch: `torch.bitwise_and(x, scalar)`."""
        return with_scalar("bitwise_and", self, scalar)

    def bitwise_or(self: "IntMethods[B, D, Int]", other: "IntOperand[B, D]") -> "Tensor[B, D, Int]":
        """x | y, bit by bit. `[..] -> [..]`, sizes equal or 1.

        Torch: `torch.bitwise_or`.
        Differs: equal ranks, no promotion.
        """
        return mixed("bitwise_or", self, other)

    def bitwise_or_scalar(self: "IntMethods[B, D, Int]", scalar: int) -> "Tensor[B, D, Int]":
        """x | scalar, bit by bit. `[..] -> [..]`. Torch: `torch.bitwise_or(x, scalar)`."""
        return with_scalar("bitwise_or", self, scalar)

    def bitwise_xor(self: "IntMethods[B, D, Int]", other: "IntOperand[B, D]") -> "Tensor[B, D, Int]":
        """x ^ y, bit by bit. `[..] -> [..]`, sizes equal or 1.

        Torch: `torch.bitwise_xor`.
        Differs: equal ranks, no promotion.
        """
        return mixed("bitwise_xor", self, other)

    def bitwise_xor_scalar(self: "IntMethods[B, D, Int]", scalar: int) -> "Tensor[B, D, Int]":
        """x ^ scalar, bit by bit. `[..] -> [..]`. Torch: `torch.bitwise_xor(x, scalar)`."""
        return with_scalar("bitwise_xor", self, scalar)

    def bitwise_left_shift(self: "IntMethods[B, D, Int]", other: "IntOperand[B, D]") -> "Tensor[B, D, Int]":
        """x shifted left by y bits. `[..] -> [..]`, sizes equal or 1.

        Torch: `torch.bitwise_left_shift`.
        Differs: equal ranks, no promotion.
        """
        return mixed("bitwise_left_shift", self, other)

    def bitwise_left_shift_scalar(self: "IntMethods[B, D, Int]", scalar: int) -> "Tensor[B, D, Int]":
        """x shifted left by a number of bits. `[..] -> [..]`. Torch: `torch.bitwise_left_shift(x, scalar)`."""
        return with_scalar("bitwise_left_shift", self, scalar)

    def bitwise_right_shift(self: "IntMethods[B, D, Int]", other: "IntOperand[B, D]") -> "Tensor[B, D, Int]":
        """x shifted right by y bits; the sign is kept. `[..] -> [..]`, sizes equal or 1.

        Torch: `torch.bitwise_right_shift`.
        Differs: equal ranks, no promotion.
        """
        return mixed("bitwise_right_shift", self, other)

    def bitwise_right_shift_scalar(self: "IntMethods[B, D, Int]", scalar: int) -> "Tensor[B, D, Int]":
        """x shifted right by a number of bits; the sign is kept. `[..] -> [..]`.

        Torch: `torch.bitwise_right_shift(x, scalar)`.
        """
        return with_scalar("bitwise_right_shift", self, scalar)

    def bitwise_not(self: "IntMethods[B, D, Int]") -> "Tensor[B, D, Int]":
        """All bits inverted. `[..] -> [..]`. Torch: `torch.bitwise_not`."""
        spec = self.spec
        return wrap(spec.ops.bitwise_not(self.inner), spec)
