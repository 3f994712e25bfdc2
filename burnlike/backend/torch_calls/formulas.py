"""Activations, and element-wise operators that are several functions of the tables: bounds, other logarithms."""

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .pointwise import add, binary, div, masked_fill, maximum, minimum, mul, rsub, sub, unary
from .tables import TRANSLATIONS, Tables, aligned, at_least_1, float_dtype, like_rank, translate, translates


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
    zero = binary(t, "bool_and", TRANSLATIONS["eq"](t, lhs, 0), unary(t, "logical_not", unary(t, "isnan", rhs)))
    return masked_fill(t, product, zero, 0.0)


@translates("nan_to_num")
def nan_to_num(
    t: Tables, tensor: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    if not tensor.dtype.is_floating_point:
        return tensor.detach()
    info = torch.finfo(tensor.dtype)
    low, high = info.min if neginf is None else neginf, info.max if posinf is None else posinf
    result = masked_fill(t, tensor, unary(t, "isnan", tensor), nan or 0.0)
    result = masked_fill(t, result, TRANSLATIONS["eq"](t, tensor, math.inf), high)
    return masked_fill(t, result, TRANSLATIONS["eq"](t, tensor, -math.inf), low)


def _activated(t: Tables, tensor: Tensor, *options: Any, function: str, defaults: tuple[float, ...] = ()) -> Tensor:
    x = at_least_1(tensor)
    values = [float(it) for it in (*options, *defaults[len(options) :])]
    return like_rank(t.cast(getattr(t.activation, function)(x, *values), x.dtype), tensor)


def _softmax(t: Tables, tensor: Tensor, dim: int, half_to_float: bool = False, *, function: str) -> Tensor:
    x = t.cast(at_least_1(tensor), torch.float32) if half_to_float else at_least_1(tensor)
    return like_rank(getattr(t.activation, function)(x, dim), tensor)


translate(
    **{name: partial(_activated, function=name) for name in ("relu", "sigmoid", "silu", "mish", "selu", "threshold")},
    hardswish=partial(_activated, function="hard_swish"),
    leaky_relu=partial(_activated, function="leaky_relu", defaults=(0.01,)),
    celu=partial(_activated, function="celu", defaults=(1.0,)),
    softplus=partial(_activated, function="softplus", defaults=(1.0, 20.0)),
    hardtanh=partial(_activated, function="hardtanh", defaults=(-1.0, 1.0)),
    hardshrink=partial(_activated, function="hard_shrink", defaults=(0.5,)),
    softshrink=partial(_activated, function="soft_shrink", defaults=(0.5,)),
    hardsigmoid=lambda t, x: like_rank(t.activation.hard_sigmoid(at_least_1(x), 1 / 6, 0.5), x),
    glu=lambda t, x, dim=-1: t.activation.glu(x, dim),
    _softmax=partial(_softmax, function="softmax"),
    _log_softmax=partial(_softmax, function="log_softmax"),
)


@translates("gelu")
def gelu(t: Tables, tensor: Tensor, *, approximate: str = "none") -> Tensor:
    function = t.activation.gelu if approximate == "none" else t.activation.gelu_approximate
    return like_rank(function(at_least_1(tensor)), tensor)


@translates("elu")
def elu(t: Tables, tensor: Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Tensor:
    x = at_least_1(tensor)
    if input_scale == 1:
        result = t.activation.elu(x, float(alpha))
    else:  # alpha (e^(s x) - 1) below 0: celu has it for one alpha only
        below = t.float.mul(t.activation.elu(t.float.mul(x, float(input_scale)), 1.0), float(alpha))
        result = t.float.mask_where(below, t.float.greater(x, 0.0), x)
    return like_rank(result if scale == 1 else t.float.mul(result, float(scale)), tensor)


@translates("log_sigmoid_forward")
def log_sigmoid_forward(t: Tables, tensor: Tensor) -> tuple[Tensor, Tensor]:
    return like_rank(t.activation.log_sigmoid(at_least_1(tensor)), tensor), tensor.new_empty(0)


@translates("_prelu_kernel")
def prelu(t: Tables, tensor: Tensor, weight: Tensor) -> Tensor:
    if weight.numel() == 1 or (tensor.ndim > 1 and weight.numel() == tensor.shape[1]):
        return like_rank(t.activation.prelu(at_least_1(tensor), t.reshape(weight, [weight.numel()])), tensor)
    (x, scaled), _ = aligned(t, tensor.dtype, tensor, binary(t, "mul", tensor, weight))
    return like_rank(t.float.mask_where(scaled, t.float.greater_equal(x, 0.0), x), tensor)
