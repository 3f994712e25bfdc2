"""Arithmetic, comparisons and logic; element-wise functions of Float, bitwise ones of Int."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from ..._torch_compat.transforms import readable
from ...ops import half_products
from .creation import Scalar, as_indices, element_of, fitted


class ArithmeticOps(Protocol):
    """Arithmetic. Operands have one dtype and one rank, sizes are equal or 1; a scalar is of the kind of the tensor.

    Results have the dtype of the operands. A name that begins with `r` takes a scalar on the left of its operator.

    Functions:
        div: lhs / rhs; Int truncates toward zero.
        remainder: lhs - rhs * floor(lhs / rhs): the sign of rhs.
        rremainder: The remainder of a scalar by each element.
        powi: lhs to the power of rhs; Int truncates toward zero where rhs is negative.
        rpowi: A scalar to the power of each element.
        sign: -1, 0 or 1; 0 for NaN.
        matmul: `[.., m, k] x [.., k, n] -> [.., m, n]`, of one rank, 2 or more; batch sizes are equal or 1.
        dot: `[n] x [n] -> [1]`.
        clamp: Not above `maximum`, then not below `minimum`.
        max_pair: rhs where lhs < rhs, else lhs.
        min_pair: rhs where rhs < lhs, else lhs.
    """

    def add(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor: ...
    def sub(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor: ...
    def rsub(self, tensor: Tensor, scalar: Scalar, /) -> Tensor: ...
    def mul(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor: ...
    def div(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor: ...
    def remainder(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor: ...
    def rremainder(self, tensor: Tensor, scalar: Scalar, /) -> Tensor: ...
    def powi(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor: ...
    def rpowi(self, tensor: Tensor, scalar: Scalar, /) -> Tensor: ...
    def neg(self, tensor: Tensor, /) -> Tensor: ...
    def sign(self, tensor: Tensor, /) -> Tensor: ...
    def abs(self, tensor: Tensor, /) -> Tensor: ...
    def square(self, tensor: Tensor, /) -> Tensor: ...
    def matmul(self, lhs: Tensor, rhs: Tensor, /) -> Tensor: ...
    def dot(self, lhs: Tensor, rhs: Tensor, /) -> Tensor: ...
    def clamp(self, tensor: Tensor, minimum: Scalar, maximum: Scalar, /) -> Tensor: ...
    def clamp_min(self, tensor: Tensor, minimum: Scalar, /) -> Tensor: ...
    def clamp_max(self, tensor: Tensor, maximum: Scalar, /) -> Tensor: ...
    def max_pair(self, lhs: Tensor, rhs: Tensor, /) -> Tensor: ...
    def min_pair(self, lhs: Tensor, rhs: Tensor, /) -> Tensor: ...


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
    rremainder: Any = staticmethod(lambda tensor, scalar, /: torch.remainder(scalar, tensor))
    rpowi: Any = staticmethod(lambda tensor, scalar, /: torch.pow(scalar, tensor))
    dot: Any = staticmethod(lambda lhs, rhs, /: torch.dot(lhs, rhs).reshape(1))
    max_pair: Any = staticmethod(lambda lhs, rhs, /: torch.where(lhs < rhs, rhs, lhs))
    min_pair: Any = staticmethod(lambda lhs, rhs, /: torch.where(rhs < lhs, rhs, lhs))

    @staticmethod
    def matmul(lhs: Tensor, rhs: Tensor, /) -> Tensor:
        return half_products.matmul(lhs, rhs) if lhs.dtype in half_products.SLOW else lhs.matmul(rhs)

    @staticmethod
    def powi(lhs: Tensor, rhs: Tensor | float, /) -> Tensor:
        # The usual number is a float; `isinstance` asks the class of tensors, which takes a tenth of a small operation.
        return lhs.pow(element_of(lhs, rhs) if type(rhs) is float or not isinstance(rhs, Tensor) else rhs)

    @staticmethod
    def clamp(tensor: Tensor, minimum: float | int, maximum: float | int, /) -> Tensor:
        minimum, maximum = element_of(tensor, minimum), element_of(tensor, maximum)
        if minimum > maximum:  # torch lets the maximum win
            return torch.clamp_min(torch.clamp_max(tensor, maximum), minimum)
        return torch.clamp(tensor, minimum, maximum)


class FloatMathOps(Protocol):
    """Element-wise functions of Float tensors. Operands have one dtype and one rank, sizes are equal or 1.

    Functions:
        recip: 1 / x.
        round: The nearest whole number; the even one of two.
        trunc: The whole part.
        rdiv: (1 / tensor) * scalar.
        fmod: lhs - rhs * trunc(lhs / rhs): the sign of lhs.
        atan2: The angle of the point (rhs, lhs), in radians.
        contains_nan: Whether any element is NaN; Bool, `[1]`.
        is_close: Where |lhs - rhs| <= atol + rtol * |rhs|, or both are the same infinity; Bool.
        all_close: Whether all elements are close, on the host.
    """

    def exp(self, tensor: Tensor, /) -> Tensor: ...
    def log(self, tensor: Tensor, /) -> Tensor: ...
    def log1p(self, tensor: Tensor, /) -> Tensor: ...
    def sqrt(self, tensor: Tensor, /) -> Tensor: ...
    def recip(self, tensor: Tensor, /) -> Tensor: ...
    def erf(self, tensor: Tensor, /) -> Tensor: ...
    def round(self, tensor: Tensor, /) -> Tensor: ...
    def floor(self, tensor: Tensor, /) -> Tensor: ...
    def ceil(self, tensor: Tensor, /) -> Tensor: ...
    def trunc(self, tensor: Tensor, /) -> Tensor: ...
    def cos(self, tensor: Tensor, /) -> Tensor: ...
    def sin(self, tensor: Tensor, /) -> Tensor: ...
    def tan(self, tensor: Tensor, /) -> Tensor: ...
    def cosh(self, tensor: Tensor, /) -> Tensor: ...
    def sinh(self, tensor: Tensor, /) -> Tensor: ...
    def tanh(self, tensor: Tensor, /) -> Tensor: ...
    def acos(self, tensor: Tensor, /) -> Tensor: ...
    def asin(self, tensor: Tensor, /) -> Tensor: ...
    def atan(self, tensor: Tensor, /) -> Tensor: ...
    def acosh(self, tensor: Tensor, /) -> Tensor: ...
    def asinh(self, tensor: Tensor, /) -> Tensor: ...
    def atanh(self, tensor: Tensor, /) -> Tensor: ...
    def deg2rad(self, tensor: Tensor, /) -> Tensor: ...
    def rad2deg(self, tensor: Tensor, /) -> Tensor: ...
    def is_nan(self, tensor: Tensor, /) -> Tensor: ...
    def is_inf(self, tensor: Tensor, /) -> Tensor: ...
    def is_finite(self, tensor: Tensor, /) -> Tensor: ...
    def powf(self, lhs: Tensor, rhs: Tensor | float, /) -> Tensor: ...
    def rdiv(self, tensor: Tensor, scalar: float, /) -> Tensor: ...
    def fmod(self, lhs: Tensor, rhs: Tensor | float, /) -> Tensor: ...
    def atan2(self, lhs: Tensor, rhs: Tensor, /) -> Tensor: ...
    def hypot(self, lhs: Tensor, rhs: Tensor, /) -> Tensor: ...
    def contains_nan(self, tensor: Tensor, /) -> Tensor: ...
    def is_close(self, lhs: Tensor, rhs: Tensor, rtol: float, atol: float, /) -> Tensor: ...
    def all_close(self, lhs: Tensor, rhs: Tensor, rtol: float, atol: float, /) -> bool: ...


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
    rdiv: Any = staticmethod(lambda tensor, scalar, /: torch.reciprocal(tensor) * scalar)
    contains_nan: Any = staticmethod(lambda tensor, /: torch.isnan(tensor).any().reshape(1))


class IntMathOps(Protocol):
    """Bitwise functions of Int tensors. Operands have one dtype and one rank, sizes are equal or 1.

    Functions:
        bitwise_right_shift: lhs >> rhs; the sign is kept.
    """

    def bitwise_and(self, lhs: Tensor, rhs: Tensor | int, /) -> Tensor: ...
    def bitwise_or(self, lhs: Tensor, rhs: Tensor | int, /) -> Tensor: ...
    def bitwise_xor(self, lhs: Tensor, rhs: Tensor | int, /) -> Tensor: ...
    def bitwise_left_shift(self, lhs: Tensor, rhs: Tensor | int, /) -> Tensor: ...
    def bitwise_right_shift(self, lhs: Tensor, rhs: Tensor | int, /) -> Tensor: ...
    def bitwise_not(self, tensor: Tensor, /) -> Tensor: ...


class TorchIntMathOps:
    """Implements `IntMathOps`, and the arithmetic that torch promotes or refuses for integers."""

    bitwise_and: Any = staticmethod(Tensor.bitwise_and)
    bitwise_or: Any = staticmethod(Tensor.bitwise_or)
    bitwise_xor: Any = staticmethod(Tensor.bitwise_xor)
    bitwise_not: Any = staticmethod(Tensor.bitwise_not)
    dot: Any = staticmethod(lambda lhs, rhs, /: torch.sum(lhs * rhs, 0, True, dtype=lhs.dtype))

    @staticmethod
    def div(lhs: Tensor, rhs: Tensor | float, /) -> Tensor:
        # The smallest number / -1 ends the process in torch.
        if not isinstance(rhs, Tensor):
            return torch.neg(lhs) if rhs == -1 else torch.div(lhs, rhs, rounding_mode="trunc")
        if lhs.dtype not in (torch.int32, torch.int64) or (readable(lhs) and not _has_smallest(lhs)):
            return torch.div(lhs, rhs, rounding_mode="trunc")
        # Without values to look at, as under vmap, no divisor is left that could be -1.
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


class ComparisonOps(Protocol):
    """Equality and reductions to Bool, of Float, Int and Bool tensors. Sizes of operands are equal or 1.

    Functions:
        any: `[1]`: whether an element is not zero; NaN is not zero.
        any_dim: Whether an element along `dim` is not zero; the dimension keeps size 1.
        all: `[1]`: whether no element is zero.
        all_dim: Whether no element along `dim` is zero; the dimension keeps size 1.
    """

    def equal(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor: ...
    def not_equal(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor: ...
    def any(self, tensor: Tensor, /) -> Tensor: ...
    def any_dim(self, tensor: Tensor, dim: int, /) -> Tensor: ...
    def all(self, tensor: Tensor, /) -> Tensor: ...
    def all_dim(self, tensor: Tensor, dim: int, /) -> Tensor: ...


def _truths(function: Any) -> tuple[Any, Any]:
    """torch's `any` or `all`: of all elements, and along a dimension. It reduces uint8 to uint8: that is converted."""

    def of_all(tensor: Tensor, /) -> Tensor:
        out = function(tensor, 0, True) if tensor.ndim == 1 else function(tensor).reshape(1)
        return out if out.dtype is torch.bool else out.bool()

    def of_dim(tensor: Tensor, dim: int, /) -> Tensor:
        out = function(tensor, dim, True)
        return out if out.dtype is torch.bool else out.bool()

    return staticmethod(of_all), staticmethod(of_dim)


class TorchComparisonOps:
    """Implements `ComparisonOps`."""

    equal: Any = staticmethod(Tensor.eq)
    not_equal: Any = staticmethod(Tensor.ne)
    any, any_dim = _truths(torch.any)
    all, all_dim = _truths(torch.all)


class InequalityOps(Protocol):
    """Comparisons by order, of Float and Int tensors. Sizes of operands are equal or 1."""

    def greater(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor: ...
    def greater_equal(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor: ...
    def lower(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor: ...
    def lower_equal(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor: ...


class TorchInequalityOps:
    """Implements `InequalityOps`."""

    greater: Any = staticmethod(Tensor.gt)
    greater_equal: Any = staticmethod(Tensor.ge)
    lower: Any = staticmethod(Tensor.lt)
    lower_equal: Any = staticmethod(Tensor.le)


class LogicOps(Protocol):
    """Functions of Bool tensors only. Sizes of operands are equal or 1.

    Functions:
        argwhere: `[n, rank]`: the coordinates of what is set, row by row, as `dtype`.
        nonzero: `[n]` per dimension: the coordinates of what is set, as `dtype`; no tensors where nothing is.
        triu_mask: `[1, .., rows, columns]`, set below the diagonal `offset`.
        tril_mask: `[1, .., rows, columns]`, set above the diagonal `offset`.
        diag_mask: `[1, .., rows, columns]`, set but on the diagonal `offset`.
    """

    def bool_not(self, tensor: Tensor, /) -> Tensor: ...
    def bool_and(self, lhs: Tensor, rhs: Tensor | bool, /) -> Tensor: ...
    def bool_or(self, lhs: Tensor, rhs: Tensor | bool, /) -> Tensor: ...
    def bool_xor(self, lhs: Tensor, rhs: Tensor | bool, /) -> Tensor: ...
    def argwhere(self, tensor: Tensor, dtype: torch.dtype, /) -> Tensor: ...
    def nonzero(self, tensor: Tensor, dtype: torch.dtype, /) -> list[Tensor]: ...
    def triu_mask(self, shape: Sequence[int], offset: int, device: torch.device, /) -> Tensor: ...
    def tril_mask(self, shape: Sequence[int], offset: int, device: torch.device, /) -> Tensor: ...
    def diag_mask(self, shape: Sequence[int], offset: int, device: torch.device, /) -> Tensor: ...


class TorchLogicOps:
    """Implements `LogicOps`. The bitwise functions are those that take scalars as well."""

    bool_not: Any = staticmethod(Tensor.bitwise_not)
    bool_and: Any = staticmethod(Tensor.bitwise_and)
    bool_or: Any = staticmethod(Tensor.bitwise_or)
    bool_xor: Any = staticmethod(Tensor.bitwise_xor)
    triu_mask: Any = staticmethod(lambda shape, offset, device, /: _ones(shape, device).tril_(offset - 1))
    tril_mask: Any = staticmethod(lambda shape, offset, device, /: _ones(shape, device).triu_(offset + 1))

    @staticmethod
    def argwhere(tensor: Tensor, dtype: torch.dtype, /) -> Tensor:
        return as_indices(torch.nonzero(tensor), max(tensor.shape), dtype)

    @staticmethod
    def nonzero(tensor: Tensor, dtype: torch.dtype, /) -> list[Tensor]:
        coordinates = as_indices(torch.nonzero(tensor), max(tensor.shape), dtype)
        return list(coordinates.unbind(1)) if coordinates.shape[0] else []

    @staticmethod
    def diag_mask(shape: Sequence[int], offset: int, device: torch.device, /) -> Tensor:
        ones = _ones(shape, device)
        return ones.tril(offset - 1) | ones.triu(offset + 1)


def _ones(shape: Sequence[int], device: torch.device) -> Tensor:
    sizes = [*[1] * (len(shape) - 2), *shape[-2:]]
    return torch.ones(sizes, dtype=torch.bool, device=device)
