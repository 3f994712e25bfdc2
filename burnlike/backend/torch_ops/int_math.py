"""`IntMathOps` and what Int arithmetic needs beside torch's own, in torch."""

from typing import Any

import torch
from torch import Tensor


class TorchIntMathOps:
    """Implements `IntMathOps`, and the arithmetic that torch promotes or refuses for integers."""

    bitwise_and: Any = staticmethod(Tensor.bitwise_and)
    bitwise_or: Any = staticmethod(Tensor.bitwise_or)
    bitwise_xor: Any = staticmethod(Tensor.bitwise_xor)
    bitwise_left_shift: Any = staticmethod(Tensor.bitwise_left_shift)
    bitwise_right_shift: Any = staticmethod(Tensor.bitwise_right_shift)
    bitwise_not: Any = staticmethod(Tensor.bitwise_not)

    @staticmethod
    def div(lhs: Tensor, rhs: Tensor | float, /) -> Tensor:
        if isinstance(rhs, int) and rhs == -1:  # the smallest number / -1 ends the process in torch
            return torch.neg(lhs)
        return torch.div(lhs, rhs, rounding_mode="trunc")

    @staticmethod
    def powi(lhs: Tensor, rhs: Tensor | float, /) -> Tensor:
        if not isinstance(rhs, Tensor) and rhs < 0:  # torch takes negative exponents in a tensor only
            rhs = lhs.new_full((), rhs)
        return torch.pow(lhs, rhs)

    @staticmethod
    def matmul(lhs: Tensor, rhs: Tensor, /) -> Tensor:
        return torch.matmul(lhs, rhs) if lhs.device.type == "cpu" else limb_matmul(lhs, rhs)

    @staticmethod
    def dot(lhs: Tensor, rhs: Tensor, /) -> Tensor:
        return torch.sum(lhs * rhs, 0, True, dtype=lhs.dtype)


# Sums of this many products of two 16-bit numbers are exact in float64: 2^20 * 2^32 < 2^53.
_EXACT_TERMS = 1 << 20


def limb_matmul(lhs: Tensor, rhs: Tensor) -> Tensor:
    """The exact integer product (modulo 2^bits) on devices whose matmul takes floating point only.

    The operands are cut into limbs of 16 bits, whose products are exact in float64: one product for 8 and 16 bits, 3
    for 32, 10 for 64.
    """
    limbs = max(1, torch.iinfo(lhs.dtype).bits // 16)
    left, right = _limbs(lhs, limbs), _limbs(rhs, limbs)
    total: Tensor | None = None
    for i in range(limbs):
        for j in range(limbs - i):
            for start in range(0, max(1, lhs.shape[-1]), _EXACT_TERMS):
                stop = start + _EXACT_TERMS
                product = torch.matmul(left[i][..., start:stop], right[j][..., start:stop, :]).long() << 16 * (i + j)
                total = product if total is None else total + product
    assert total is not None
    return total.to(lhs.dtype)


def _limbs(tensor: Tensor, count: int) -> list[Tensor]:
    """Its 16-bit parts in float64, the lowest first; the highest carries the sign."""
    wide = tensor.long()
    low = [(wide >> 16 * i & 0xFFFF).double() for i in range(count - 1)]
    return [*low, (wide >> 16 * (count - 1)).double()]
