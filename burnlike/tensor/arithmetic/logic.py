"""Logic on Bool tensors and the positions of what is set; bitwise functions of Int tensors."""

from typing import Any

from ..core.base import B, BoolOperand, Bools, D, IntOperand, Ints, K, Tensor, TensorBase, wrap
from ..core.kinds import D1, D2, Bool, Int
from ..core.operands import fail, mixed
from .numeric import with_scalar


class LogicMethods(TensorBase[B, D, K]):
    """Logic of Bool tensors, bitwise functions of Int tensors."""

    __slots__ = ()

    def bool_not(self: "Bools[B, D]") -> "Tensor[B, D, Bool]":
        """Not, element by element; `~x`. Torch: `torch.logical_not`."""
        return wrap(self.spec.ops.bool_not(self.inner), self.spec)

    def bool_and(self: "Bools[B, D]", other: "BoolOperand[B, D]") -> "Tensor[B, D, Bool]":
        """`x & y`. `[..], [..] -> [..]`, sizes equal or 1. Torch: `torch.logical_and`.
        Differs: equal ranks, Bool only.
        """
        spec = self.spec
        right: Any = other
        if type(right) is not spec.tensor or right.spec is not spec:
            return mixed("bool_and", self, right)
        try:
            return wrap(spec.ops.bool_and(self.inner, right.inner), spec)
        except Exception as error:
            fail("bool_and", error, self.inner, right.inner)

    def bool_or(self: "Bools[B, D]", other: "BoolOperand[B, D]") -> "Tensor[B, D, Bool]":
        """`x | y`. `[..], [..] -> [..]`, sizes equal or 1. Torch: `torch.logical_or`.
        Differs: equal ranks, Bool only.
        """
        spec = self.spec
        right: Any = other
        if type(right) is not spec.tensor or right.spec is not spec:
            return mixed("bool_or", self, right)
        try:
            return wrap(spec.ops.bool_or(self.inner, right.inner), spec)
        except Exception as error:
            fail("bool_or", error, self.inner, right.inner)

    def bool_xor(self: "Bools[B, D]", other: "BoolOperand[B, D]") -> "Tensor[B, D, Bool]":
        """`x ^ y`. `[..], [..] -> [..]`, sizes equal or 1.
        Torch: `torch.logical_xor`. Differs: equal ranks, Bool only.
        """
        spec = self.spec
        right: Any = other
        if type(right) is not spec.tensor or right.spec is not spec:
            return mixed("bool_xor", self, right)
        try:
            return wrap(spec.ops.bool_xor(self.inner, right.inner), spec)
        except Exception as error:
            fail("bool_xor", error, self.inner, right.inner)

    __invert__ = bool_not
    __and__ = bool_and
    __rand__ = bool_and
    __or__ = bool_or
    __ror__ = bool_or
    __xor__ = bool_xor
    __rxor__ = bool_xor

    def nonzero(self: "Bools[B, D]") -> "list[Tensor[B, D1, Int]]":
        """`[n]` for each dimension: the coordinates of what is set, in row order. Waits for the device.
        Torch: `torch.nonzero(x, as_tuple=True)`. Differs: an empty list where nothing is set.
        """
        result_spec = self.spec.int.ranks[1]
        return [wrap(indices, result_spec) for indices in self.spec.ops.nonzero(self.inner, result_spec.dtype)]

    async def nonzero_async(self: "LogicMethods[B, D, Bool]") -> "list[Tensor[B, D1, Int]]":
        """As `nonzero`. Torch: `torch.nonzero(x, as_tuple=True)`."""
        return self.nonzero()

    def argwhere(self: "Bools[B, D]") -> "Tensor[B, D2, Int]":
        """`[n, D]`: the coordinates of what is set, in row order. Waits for the device. Torch: `torch.argwhere`."""
        result_spec = self.spec.int.ranks[2]
        return wrap(self.spec.ops.argwhere(self.inner, result_spec.dtype), result_spec)

    async def argwhere_async(self: "LogicMethods[B, D, Bool]") -> "Tensor[B, D2, Int]":
        """As `argwhere`. Torch: `torch.argwhere`."""
        return self.argwhere()

    def bitwise_and(self: "Ints[B, D]", other: "IntOperand[B, D]") -> "Tensor[B, D, Int]":
        """x & y by bits. `[..] -> [..]`, sizes equal or 1. Torch: `torch.bitwise_and`.
        Differs: equal ranks, no promotion.
        """
        return mixed("bitwise_and", self, other)

    def bitwise_and_scalar(self: "Ints[B, D]", scalar: int) -> "Tensor[B, D, Int]":
        """x & scalar, bit by bit. `[..] -> [..]`. Torch: `torch.bitwise_and(x, scalar)`."""
        return with_scalar("bitwise_and", self, scalar)

    def bitwise_or(self: "Ints[B, D]", other: "IntOperand[B, D]") -> "Tensor[B, D, Int]":
        """x | y by bits. `[..] -> [..]`, sizes equal or 1. Torch: `torch.bitwise_or`.
        Differs: equal ranks, no promotion.
        """
        return mixed("bitwise_or", self, other)

    def bitwise_or_scalar(self: "Ints[B, D]", scalar: int) -> "Tensor[B, D, Int]":
        """x | scalar, bit by bit. `[..] -> [..]`. Torch: `torch.bitwise_or(x, scalar)`."""
        return with_scalar("bitwise_or", self, scalar)

    def bitwise_xor(self: "Ints[B, D]", other: "IntOperand[B, D]") -> "Tensor[B, D, Int]":
        """x ^ y by bits. `[..] -> [..]`, sizes equal or 1. Torch: `torch.bitwise_xor`.
        Differs: equal ranks, no promotion.
        """
        return mixed("bitwise_xor", self, other)

    def bitwise_xor_scalar(self: "Ints[B, D]", scalar: int) -> "Tensor[B, D, Int]":
        """x ^ scalar, bit by bit. `[..] -> [..]`. Torch: `torch.bitwise_xor(x, scalar)`."""
        return with_scalar("bitwise_xor", self, scalar)

    def bitwise_left_shift(self: "Ints[B, D]", other: "IntOperand[B, D]") -> "Tensor[B, D, Int]":
        """x << y. `[..] -> [..]`, sizes equal or 1. Torch: `torch.bitwise_left_shift`.
        Differs: equal ranks, no promotion; amounts are modulo the bits of the element type.
        """
        return mixed("bitwise_left_shift", self, other)

    def bitwise_left_shift_scalar(self: "Ints[B, D]", scalar: int) -> "Tensor[B, D, Int]":
        """x shifted left by a number of bits. `[..] -> [..]`. Torch: `torch.bitwise_left_shift(x, scalar)`.
        Differs: the amount is modulo the bits of the element type.
        """
        return with_scalar("bitwise_left_shift", self, scalar)

    def bitwise_right_shift(self: "Ints[B, D]", other: "IntOperand[B, D]") -> "Tensor[B, D, Int]":
        """x >> y, with its sign. `[..] -> [..]`, sizes equal or 1.
        Torch: `torch.bitwise_right_shift`.
        Differs: equal ranks, no promotion; amounts are modulo the bits of the element type.
        """
        return mixed("bitwise_right_shift", self, other)

    def bitwise_right_shift_scalar(self: "Ints[B, D]", scalar: int) -> "Tensor[B, D, Int]":
        """x shifted right by a number of bits, with its sign. `[..] -> [..]`.
        Torch: `torch.bitwise_right_shift(x, scalar)`. Differs: the amount is modulo the bits of the element type.
        """
        return with_scalar("bitwise_right_shift", self, scalar)

    def bitwise_not(self: "Ints[B, D]") -> "Tensor[B, D, Int]":
        """All bits inverted. `[..] -> [..]`. Torch: `torch.bitwise_not`."""
        return wrap(self.spec.ops.bitwise_not(self.inner), self.spec)
