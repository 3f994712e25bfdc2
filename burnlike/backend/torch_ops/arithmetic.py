"""Arithmetic, comparisons and logic; element-wise functions of Float, bitwise ones of Int, in torch."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..._torch_compat.transforms import readable
from ...ops import half_products
from .creation import as_indices, element, fitted


class TorchArithmeticOps:
    """Implements `ArithmeticOps` for Float; `TorchIntMathOps` replaces what torch promotes."""

    add: Any = staticmethod(Tensor.add)
    sub: Any = staticmethod(Tensor.sub)
    rsub: Any = staticmethod(torch.rsub)
    mul: Any = staticmethod(Tensor.mul)
    div: Any = staticmethod(Tensor.div)
    remainder: Any = staticmethod(Tensor.remainder)
    neg: Any = staticmethod(Tensor.neg)
    sign: Any = staticmethod(Tensor.sign)
    abs: Any = staticmethod(Tensor.abs)
    square: Any = staticmethod(Tensor.square)
    clamp_min: Any = staticmethod(fitted(Tensor.clamp_min))
    clamp_max: Any = staticmethod(fitted(Tensor.clamp_max))

    @staticmethod
    def matmul(lhs: Tensor, rhs: Tensor, /) -> Tensor:
        return half_products.matmul(lhs, rhs) if lhs.dtype in half_products.SLOW else lhs.matmul(rhs)

    @staticmethod
    def powi(lhs: Tensor, rhs: Tensor | float, /) -> Tensor:
        return torch.pow(lhs, rhs if isinstance(rhs, Tensor) else element(rhs, lhs.dtype))

    @staticmethod
    def rremainder(tensor: Tensor, scalar: float | int, /) -> Tensor:
        return torch.remainder(scalar, tensor)

    @staticmethod
    def rpowi(tensor: Tensor, scalar: float | int, /) -> Tensor:
        return torch.pow(scalar, tensor)

    @staticmethod
    def dot(lhs: Tensor, rhs: Tensor, /) -> Tensor:
        return torch.dot(lhs, rhs).reshape(1)

    @staticmethod
    def clamp(tensor: Tensor, minimum: float | int, maximum: float | int, /) -> Tensor:
        minimum, maximum = element(minimum, tensor.dtype), element(maximum, tensor.dtype)
        if minimum > maximum:  # torch lets the maximum win
            return torch.clamp_min(torch.clamp_max(tensor, maximum), minimum)
        return torch.clamp(tensor, minimum, maximum)

    @staticmethod
    def max_pair(lhs: Tensor, rhs: Tensor, /) -> Tensor:
        return torch.where(lhs < rhs, rhs, lhs)

    @staticmethod
    def min_pair(lhs: Tensor, rhs: Tensor, /) -> Tensor:
        return torch.where(rhs < lhs, rhs, lhs)


class TorchFloatMathOps:
    """Implements `FloatMathOps`."""

    exp: Any = staticmethod(Tensor.exp)
    log: Any = staticmethod(Tensor.log)
    log1p: Any = staticmethod(Tensor.log1p)
    sqrt: Any = staticmethod(Tensor.sqrt)
    recip: Any = staticmethod(Tensor.reciprocal)
    erf: Any = staticmethod(Tensor.erf)
    round: Any = staticmethod(Tensor.round)
    floor: Any = staticmethod(Tensor.floor)
    ceil: Any = staticmethod(Tensor.ceil)
    trunc: Any = staticmethod(Tensor.trunc)
    cos: Any = staticmethod(Tensor.cos)
    sin: Any = staticmethod(Tensor.sin)
    tan: Any = staticmethod(Tensor.tan)
    cosh: Any = staticmethod(Tensor.cosh)
    sinh: Any = staticmethod(Tensor.sinh)
    tanh: Any = staticmethod(Tensor.tanh)
    acos: Any = staticmethod(Tensor.acos)
    asin: Any = staticmethod(Tensor.asin)
    atan: Any = staticmethod(Tensor.atan)
    acosh: Any = staticmethod(Tensor.acosh)
    asinh: Any = staticmethod(Tensor.asinh)
    atanh: Any = staticmethod(Tensor.atanh)
    deg2rad: Any = staticmethod(Tensor.deg2rad)
    rad2deg: Any = staticmethod(Tensor.rad2deg)
    is_nan: Any = staticmethod(Tensor.isnan)
    is_inf: Any = staticmethod(Tensor.isinf)
    is_finite: Any = staticmethod(Tensor.isfinite)
    powf: Any = staticmethod(TorchArithmeticOps.powi)
    fmod: Any = staticmethod(Tensor.fmod)
    atan2: Any = staticmethod(Tensor.atan2)
    hypot: Any = staticmethod(Tensor.hypot)
    is_close: Any = staticmethod(Tensor.isclose)
    all_close: Any = staticmethod(Tensor.allclose)

    @staticmethod
    def rdiv(tensor: Tensor, scalar: float, /) -> Tensor:
        return torch.reciprocal(tensor) * scalar

    @staticmethod
    def contains_nan(tensor: Tensor, /) -> Tensor:
        return torch.isnan(tensor).any().reshape(1)


class TorchIntMathOps:
    """Implements `IntMathOps`, and the arithmetic that torch promotes or refuses for integers."""

    bitwise_and: Any = staticmethod(Tensor.bitwise_and)
    bitwise_or: Any = staticmethod(Tensor.bitwise_or)
    bitwise_xor: Any = staticmethod(Tensor.bitwise_xor)
    bitwise_not: Any = staticmethod(Tensor.bitwise_not)

    @staticmethod
    def div(lhs: Tensor, rhs: Tensor | float, /) -> Tensor:
        # The smallest number / -1 ends the process in torch.
        if not isinstance(rhs, Tensor):
            return torch.neg(lhs) if rhs == -1 else torch.div(lhs, rhs, rounding_mode="trunc")
        if lhs.dtype not in (torch.int32, torch.int64) or (readable(lhs) and not _has_smallest(lhs)):
            return torch.div(lhs, rhs, rounding_mode="trunc")
        negated = rhs == -1
        return torch.where(negated, torch.neg(lhs), torch.div(lhs, torch.where(negated, 1, rhs), rounding_mode="trunc"))

    @staticmethod
    def bitwise_left_shift(lhs: Tensor, rhs: Tensor | int, /) -> Tensor:
        return torch.bitwise_left_shift(lhs, _within(lhs.dtype, rhs))

    @staticmethod
    def bitwise_right_shift(lhs: Tensor, rhs: Tensor | int, /) -> Tensor:
        return torch.bitwise_right_shift(lhs, _within(lhs.dtype, rhs))

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


def _has_smallest(tensor: Tensor) -> bool:
    return tensor.numel() > 0 and tensor.amin().item() == torch.iinfo(tensor.dtype).min


def _within(dtype: torch.dtype, amount: Any) -> Any:
    """An amount of bits to shift by, modulo the bits that there are: torch, as C, leaves any other undefined."""
    return amount & torch.iinfo(dtype).bits - 1


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


class TorchComparisonOps:
    """Implements `ComparisonOps`. Torch reduces uint8 to uint8: that is converted."""

    equal: Any = staticmethod(Tensor.eq)
    not_equal: Any = staticmethod(Tensor.ne)

    @staticmethod
    def any(tensor: Tensor, /) -> Tensor:
        out = torch.any(tensor, 0, True) if tensor.ndim == 1 else torch.any(tensor).reshape(1)
        return out if out.dtype is torch.bool else out.bool()

    @staticmethod
    def any_dim(tensor: Tensor, dim: int, /) -> Tensor:
        out = torch.any(tensor, dim, True)
        return out if out.dtype is torch.bool else out.bool()

    @staticmethod
    def all(tensor: Tensor, /) -> Tensor:
        out = torch.all(tensor, 0, True) if tensor.ndim == 1 else torch.all(tensor).reshape(1)
        return out if out.dtype is torch.bool else out.bool()

    @staticmethod
    def all_dim(tensor: Tensor, dim: int, /) -> Tensor:
        out = torch.all(tensor, dim, True)
        return out if out.dtype is torch.bool else out.bool()


class TorchInequalityOps:
    """Implements `InequalityOps`."""

    greater: Any = staticmethod(Tensor.gt)
    greater_equal: Any = staticmethod(Tensor.ge)
    lower: Any = staticmethod(Tensor.lt)
    lower_equal: Any = staticmethod(Tensor.le)


class TorchLogicOps:
    """Implements `LogicOps`. The bitwise functions are those that take scalars as well."""

    bool_not: Any = staticmethod(Tensor.bitwise_not)
    bool_and: Any = staticmethod(Tensor.bitwise_and)
    bool_or: Any = staticmethod(Tensor.bitwise_or)
    bool_xor: Any = staticmethod(Tensor.bitwise_xor)

    @staticmethod
    def argwhere(tensor: Tensor, dtype: torch.dtype, /) -> Tensor:
        return as_indices(torch.nonzero(tensor), max(tensor.shape), dtype)

    @staticmethod
    def nonzero(tensor: Tensor, dtype: torch.dtype, /) -> list[Tensor]:
        coordinates = as_indices(torch.nonzero(tensor), max(tensor.shape), dtype)
        return list(coordinates.unbind(1)) if coordinates.shape[0] else []

    @staticmethod
    def triu_mask(shape: Sequence[int], offset: int, device: torch.device, /) -> Tensor:
        return _ones(shape, device).tril_(offset - 1)

    @staticmethod
    def tril_mask(shape: Sequence[int], offset: int, device: torch.device, /) -> Tensor:
        return _ones(shape, device).triu_(offset + 1)

    @staticmethod
    def diag_mask(shape: Sequence[int], offset: int, device: torch.device, /) -> Tensor:
        ones = _ones(shape, device)
        return ones.tril(offset - 1) | ones.triu(offset + 1)


def _ones(shape: Sequence[int], device: torch.device) -> Tensor:
    sizes = [*[1] * (len(shape) - 2), *shape[-2:]]
    return torch.ones(sizes, dtype=torch.bool, device=device)
