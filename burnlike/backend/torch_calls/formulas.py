"""Element-wise operators that are several functions of the tables: bounds, logarithms of other bases and the like."""

import math
from typing import Any

import torch
from torch import Tensor

from .pointwise import add, binary, div, logical_not, masked_fill, maximum, minimum, mul, rsub, sub, unary
from .tables import TRANSLATIONS, Tables, at_least_1, float_dtype, like_rank, translates


@translates("clamp", "clip")
def clamp(t: Tables, tensor: Tensor, min: Any = None, max: Any = None) -> Tensor:
    if isinstance(min, Tensor) or isinstance(max, Tensor):
        result = tensor if min is None else maximum(t, tensor, min)
        return result if max is None else minimum(t, result, max)
    dtype = tensor.dtype
    for bound in (min, max):
        dtype = dtype if bound is None else torch.promote_types(dtype, torch.result_type(tensor, bound))
    x, kind = t.cast(at_least_1(tensor), dtype), float if dtype.is_floating_point else int
    if min is not None:
        x = t.of(x).clamp_min(x, kind(min))
    if max is not None:
        x = t.of(x).clamp_max(x, kind(max))
    return like_rank(x, tensor)


@translates("clamp_min")
def clamp_min(t: Tables, tensor: Tensor, bound: Any) -> Tensor:
    return clamp(t, tensor, bound, None)


@translates("clamp_max")
def clamp_max(t: Tables, tensor: Tensor, bound: Any) -> Tensor:
    return clamp(t, tensor, None, bound)


@translates("rsqrt")
def rsqrt(t: Tables, tensor: Tensor) -> Tensor:
    return unary(t, "reciprocal", unary(t, "sqrt", tensor))


@translates("expm1")
def expm1(t: Tables, tensor: Tensor) -> Tensor:
    # e^x - 1 = tanh(x / 2) (e^x + 1), which loses no digits near 0.
    return mul(t, unary(t, "tanh", mul(t, tensor, 0.5)), add(t, unary(t, "exp", tensor), 1.0))


@translates("exp2")
def exp2(t: Tables, tensor: Tensor) -> Tensor:
    return binary(t, "rpowi", tensor, 2.0, float_dtype(tensor.dtype))


def _logarithm(name: str, base: float) -> None:
    @translates(name)
    def logarithm(t: Tables, tensor: Tensor) -> Tensor:
        return div(t, unary(t, "log", tensor), math.log(base))


_logarithm("log2", 2.0)
_logarithm("log10", 10.0)


@translates("erfc")
def erfc(t: Tables, tensor: Tensor) -> Tensor:
    return rsub(t, unary(t, "erf", tensor), 1.0)


@translates("addcmul")
def addcmul(t: Tables, tensor: Tensor, one: Tensor, other: Tensor, value: Any = 1) -> Tensor:
    return add(t, tensor, mul(t, one, other), value)


@translates("addcdiv")
def addcdiv(t: Tables, tensor: Tensor, one: Tensor, other: Tensor, value: Any = 1) -> Tensor:
    return add(t, tensor, div(t, one, other), value)


@translates("lerp")
def lerp(t: Tables, start: Tensor, end: Tensor, weight: Any) -> Tensor:
    return add(t, start, mul(t, sub(t, end, start), weight))


@translates("logaddexp")
def logaddexp(t: Tables, lhs: Tensor, rhs: Tensor) -> Tensor:
    # Equal infinities have no difference.
    gap = masked_fill(t, unary(t, "abs", sub(t, lhs, rhs)), TRANSLATIONS["eq"](t, lhs, rhs), 0.0)
    return add(t, maximum(t, lhs, rhs), unary(t, "log1p", unary(t, "exp", unary(t, "neg", gap))))


@translates("xlogy")
def xlogy(t: Tables, lhs: Any, rhs: Any) -> Tensor:
    dtype, device = torch.result_type(lhs, rhs), (lhs if isinstance(lhs, Tensor) else rhs).device
    lhs, rhs = (it if isinstance(it, Tensor) else t.full((), it, float_dtype(dtype), device) for it in (lhs, rhs))
    product = mul(t, lhs, unary(t, "log", rhs))
    zero = binary(t, "bool_and", TRANSLATIONS["eq"](t, lhs, 0), logical_not(t, TRANSLATIONS["isnan"](t, rhs)))
    return masked_fill(t, product, zero, 0.0)


@translates("sgn")
def sgn(t: Tables, tensor: Tensor) -> Tensor:
    return unary(t, "sign", tensor)


@translates("frac")
def frac(t: Tables, tensor: Tensor) -> Tensor:
    return sub(t, tensor, unary(t, "trunc", tensor))


@translates("nan_to_num")
def nan_to_num(
    t: Tables, tensor: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    if not tensor.dtype.is_floating_point:
        return tensor.detach()
    info = torch.finfo(tensor.dtype)
    low, high = info.min if neginf is None else neginf, info.max if posinf is None else posinf
    result = masked_fill(t, tensor, TRANSLATIONS["isnan"](t, tensor), nan or 0.0)
    result = masked_fill(t, result, TRANSLATIONS["eq"](t, tensor, math.inf), high)
    return masked_fill(t, result, TRANSLATIONS["eq"](t, tensor, -math.inf), low)
