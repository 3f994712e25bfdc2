"""Logic on Bool tensors, and the positions of what is set."""

from typing import Any

import torch

from ..core.base import B, D, K, Tensor, TensorBase, wrap
from ..core.kinds import D1, D2, Bool, Int
from ..core.operands import fail, mixed


class LogicMethods(TensorBase[B, D, K]):
    """Methods of Bool tensors."""

    __slots__ = ()

    def bool_not(self: "LogicMethods[B, D, Bool]") -> "Tensor[B, D, Bool]":
        """Not, element by element; `~x`. Torch: `torch.logical_not`."""
        spec = self.spec
        return wrap(spec.ops.bool_not(self.inner), spec)

    def bool_and(
        self: "LogicMethods[B, D, Bool]", other: "Tensor[B, D, Bool] | torch.Tensor | bool"
    ) -> "Tensor[B, D, Bool]":
        """And, element by element; `x & y`. `[..], [..] -> [..]`, sizes equal or 1.

        Torch: `torch.logical_and`.
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

    def bool_or(
        self: "LogicMethods[B, D, Bool]", other: "Tensor[B, D, Bool] | torch.Tensor | bool"
    ) -> "Tensor[B, D, Bool]":
        """Or, element by element; `x | y`. `[..], [..] -> [..]`, sizes equal or 1.

        Torch: `torch.logical_or`.
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

    def bool_xor(
        self: "LogicMethods[B, D, Bool]", other: "Tensor[B, D, Bool] | torch.Tensor | bool"
    ) -> "Tensor[B, D, Bool]":
        """Exclusive or, element by element; `x ^ y`. `[..], [..] -> [..]`, sizes equal or 1.

        Torch: `torch.logical_xor`.
        Differs: equal ranks, Bool only.
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

    def nonzero(self: "LogicMethods[B, D, Bool]") -> "list[Tensor[B, D1, Int]]":
        """`[n]` for each dimension: the coordinates of what is set, in row order. Waits for the device.

        Torch: `torch.nonzero(x, as_tuple=True)`.
        Differs: an empty list where nothing is set.
        """
        found = self.spec.int.ranks[1]
        return [wrap(indices, found) for indices in self.spec.ops.nonzero(self.inner, found.dtype)]

    async def nonzero_async(self: "LogicMethods[B, D, Bool]") -> "list[Tensor[B, D1, Int]]":
        """As `nonzero`. Torch: `torch.nonzero(x, as_tuple=True)`."""
        return self.nonzero()

    def argwhere(self: "LogicMethods[B, D, Bool]") -> "Tensor[B, D2, Int]":
        """`[n, D]`: the coordinates of what is set, in row order. Waits for the device. Torch: `torch.argwhere`."""
        found = self.spec.int.ranks[2]
        return wrap(self.spec.ops.argwhere(self.inner, found.dtype), found)

    async def argwhere_async(self: "LogicMethods[B, D, Bool]") -> "Tensor[B, D2, Int]":
        """As `argwhere`. Torch: `torch.argwhere`."""
        return self.argwhere()
