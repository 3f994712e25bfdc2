"""Element-wise operators that are several functions of the tables: bounds, logarithms of other bases and the like."""

import math
from typing import Any

import torch
from torch import Tensor

from .pointwise import add, binary, div, logical_not, masked_fill, maximum, minimum, mul, rsub, sub, unary
from .tables import TRANSLATIONS, Tables, at_least_1, float_dtype, like_rank, translate, translates


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


translate(
    clamp_min=lambda t, x, bound: clamp(t, x, bound, None),
    clamp_max=lambda t, x, bound: clamp(t, x, None, bound),
    rsqrt=lambda t, x: unary(t, "reciprocal", unary(t, "sqrt", x)),
    # e^x - 1 = tanh(x / 2) (e^x + 1), which loses no digits near 0.
    expm1=lambda t, x: mul(t, unary(t, "tanh", mul(t, x, 0.5)), add(t, unary(t, "exp", x), 1.0)),
    exp2=lambda t, x: binary(t, "rpowi", x, 2.0, float_dtype(x.dtype)),
    log2=lambda t, x: div(t, unary(t, "log", x), math.log(2.0)),
    log10=lambda t, x: div(t, unary(t, "log", x), math.log(10.0)),
    erfc=lambda t, x: rsub(t, unary(t, "erf", x), 1.0),
    sgn=lambda t, x: unary(t, "sign", x),
    frac=lambda t, x: sub(t, x, unary(t, "trunc", x)),
    addcmul=lambda t, x, one, other, value=1: add(t, x, mul(t, one, other), value),
    addcdiv=lambda t, x, one, other, value=1: add(t, x, div(t, one, other), value),
    lerp=lambda t, start, end, weight: add(t, start, mul(t, sub(t, end, start), weight)),
)


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
