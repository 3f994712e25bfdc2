"""Element-wise operators: arithmetic, functions of numbers, comparisons, logic, choices, activations."""

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .tables import (
    TRANSLATIONS,
    Tables,
    aligned,
    at_least_1,
    float_dtype,
    kind_of,
    like_rank,
    scalar,
    translate,
    translates,
)

_OF_FLOATS = (
    *("exp", "log", "log1p", "sqrt", "erf", "cos", "sin", "tan", "cosh", "sinh", "tanh", "acos", "asin", "atan"),
    *("acosh", "asinh", "atanh", "deg2rad", "rad2deg"),
)


def _of_floats(t: Tables, tensor: Tensor, function: str) -> Tensor:
    return t.apply(tensor, function, dtype=float_dtype(tensor.dtype))


def _rounded(t: Tables, tensor: Tensor, *, decimals: int = 0, function: str) -> Tensor:
    if decimals:
        factor, (first, then) = 10.0 ** abs(decimals), ("mul", "div") if decimals > 0 else ("div", "mul")
        return binary(t, then, _rounded(t, binary(t, first, tensor, factor), function=function), factor)
    return t.apply(tensor, function) if tensor.dtype.is_floating_point else tensor.detach()


def _tested(t: Tables, tensor: Tensor, function: str) -> Tensor:
    if not tensor.dtype.is_floating_point:
        return t.full(tensor.shape, function == "is_finite", torch.bool, tensor.device)
    return t.apply(tensor, function)


translate(
    **{name: partial(_of_floats, function=name) for name in _OF_FLOATS},
    **{name: partial(Tables.apply, function=name) for name in ("neg", "sign", "abs", "square")},
    **{name: partial(_rounded, function=name) for name in ("round", "floor", "ceil", "trunc")},
    **{f"is{name}": partial(_tested, function=f"is_{name}") for name in ("nan", "inf", "finite")},
    reciprocal=partial(_of_floats, function="recip"),
    logical_not=partial(Tables.apply, function="bool_not", dtype=torch.bool),
    bitwise_not=lambda t, x: t.apply(x, "bool_not" if x.dtype is torch.bool else "bitwise_not"),
)


def binary(t: Tables, function: str, lhs: Any, rhs: Any, dtype: torch.dtype | None = None) -> Tensor:
    """A function of the tables on two operands, of which the second may be a number."""
    (x, y), is_scalar = aligned(t, dtype or torch.result_type(lhs, rhs), lhs, rhs)
    result = getattr(t.of(x), function)(x, y)
    return scalar(result) if is_scalar else result


def _scaled(t: Tables, value: Any, alpha: Any) -> Any:
    if alpha == 1:
        return value
    return binary(t, "mul", value, alpha) if isinstance(value, Tensor) else value * alpha


@translates("add")
def add(t: Tables, lhs: Any, rhs: Any, alpha: Any = 1) -> Tensor:
    dtype = torch.result_type(lhs, rhs)
    rhs = _scaled(t, rhs, alpha)
    if not isinstance(lhs, Tensor):
        lhs, rhs = rhs, lhs
    return binary(t, "bool_or" if dtype is torch.bool else "add", lhs, rhs, dtype)


@translates("sub")
def sub(t: Tables, lhs: Any, rhs: Any, alpha: Any = 1) -> Tensor:
    if not isinstance(lhs, Tensor):
        return rsub(t, rhs, lhs, alpha)
    return binary(t, "sub", lhs, _scaled(t, rhs, alpha), torch.result_type(lhs, rhs))


@translates("rsub")
def rsub(t: Tables, tensor: Tensor, other: Any, alpha: Any = 1) -> Tensor:
    if isinstance(other, Tensor):
        return sub(t, other, tensor, alpha)
    return binary(t, "rsub", _scaled(t, tensor, alpha), other, torch.result_type(tensor, other))


@translates("mul")
def mul(t: Tables, lhs: Any, rhs: Any) -> Tensor:
    if not isinstance(lhs, Tensor):
        lhs, rhs = rhs, lhs
    dtype = torch.result_type(lhs, rhs)
    return binary(t, "bool_and" if dtype is torch.bool else "mul", lhs, rhs, dtype)


@translates("div")
def div(t: Tables, lhs: Any, rhs: Any, rounding_mode: str | None = None) -> Tensor:
    dtype = torch.result_type(lhs, rhs)
    if not isinstance(lhs, Tensor):
        lhs = t.full((), lhs, dtype, rhs.device)
    if rounding_mode is None:
        return binary(t, "div", lhs, rhs, float_dtype(dtype))
    if rounding_mode == "floor":
        if dtype.is_floating_point:
            return _floor_of_floats(t, lhs, rhs)
        return binary(t, "div", binary(t, "sub", lhs, binary(t, "remainder", lhs, rhs, dtype), dtype), rhs, dtype)
    quotient = binary(t, "div", lhs, rhs, dtype)
    return unary(t, "trunc", quotient) if dtype.is_floating_point else quotient


def _floor_of_floats(t: Tables, lhs: Tensor, rhs: Any) -> Tensor:
    # As torch: exact quotients stay what they are, and x / 0 is what it is without the floor.
    compare, rest = TRANSLATIONS, fmod(t, lhs, rhs)
    quotient = div(t, sub(t, lhs, rest), rhs)
    negative = compare["lt"](t, rhs, 0) if isinstance(rhs, Tensor) else rhs < 0
    below = binary(t, "bool_and", compare["ne"](t, rest, 0), compare["ne"](t, compare["lt"](t, rest, 0), negative))
    rounded = unary(t, "round", where(t, below, sub(t, quotient, 1.0), quotient))
    if not isinstance(rhs, Tensor):
        return div(t, lhs, rhs) if rhs == 0 else rounded
    return where(t, compare["eq"](t, rhs, 0), div(t, lhs, rhs), rounded)


def unary(t: Tables, function: str, tensor: Tensor) -> Tensor:
    """An operator of one tensor, by its name."""
    return TRANSLATIONS[function](t, tensor)


@translates("fmod")
def fmod(t: Tables, lhs: Tensor, rhs: Any) -> Tensor:
    dtype = torch.result_type(lhs, rhs)
    if dtype.is_floating_point:
        return binary(t, "fmod", lhs, rhs, dtype)
    return sub(t, lhs, mul(t, div(t, lhs, rhs, "trunc"), rhs))


@translates("pow")
def pow_(t: Tables, lhs: Any, rhs: Any) -> Tensor:
    dtype = torch.result_type(lhs, rhs)
    if not isinstance(lhs, Tensor):
        return binary(t, "rpowi", rhs, lhs, dtype)
    if not isinstance(rhs, Tensor) and rhs == 2:
        return t.apply(lhs, "square", dtype=dtype)
    return binary(t, "powf" if dtype.is_floating_point else "powi", lhs, rhs, dtype)


def _of_two_floats(t: Tables, lhs: Tensor, rhs: Tensor, function: str) -> Tensor:
    return binary(t, function, lhs, rhs, float_dtype(torch.result_type(lhs, rhs)))


def _compared(t: Tables, lhs: Tensor, rhs: Any, function: str) -> Tensor:
    dtype = torch.result_type(lhs, rhs)
    ordered = function not in ("equal", "not_equal")
    return binary(t, function, lhs, rhs, torch.int64 if dtype is torch.bool and ordered else dtype)


def _bitwise(t: Tables, lhs: Any, rhs: Any, name: str) -> Tensor:
    if not isinstance(lhs, Tensor):
        lhs, rhs = rhs, lhs
    dtype = torch.result_type(lhs, rhs)
    return binary(t, f"bool_{name}" if dtype is torch.bool else f"bitwise_{name}", lhs, rhs, dtype)


for _name in ("and", "or", "xor"):
    translates(f"logical_{_name}")(lambda t, lhs, rhs, _it=_name: binary(t, f"bool_{_it}", lhs, rhs, torch.bool))
    translates(f"bitwise_{_name}")(partial(_bitwise, name=_name))
translates("bitwise_left_shift", "__lshift__")(lambda t, lhs, rhs: binary(t, "bitwise_left_shift", lhs, rhs))
translates("bitwise_right_shift", "__rshift__")(lambda t, lhs, rhs: binary(t, "bitwise_right_shift", lhs, rhs))


@translates("where")
def where(t: Tables, mask: Tensor, chosen: Any, other: Any) -> Tensor:
    dtype, device = torch.result_type(chosen, other), mask.device
    chosen, other = (it if isinstance(it, Tensor) else t.full((), it, dtype, device) for it in (chosen, other))
    shape = torch.broadcast_shapes(mask.shape, chosen.shape, other.shape)
    kinds = ((chosen, dtype), (other, dtype), (mask, torch.bool))
    x, y, m = (t.ranked(t.cast(at_least_1(it), kind), len(shape)) for it, kind in kinds)
    return t.reshape(t.of(dtype).mask_where(y, m, x), shape)


@translates("masked_fill")
def masked_fill(t: Tables, tensor: Tensor, mask: Tensor, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return where(t, mask, t.cast(value, tensor.dtype), tensor)
    shape = torch.broadcast_shapes(tensor.shape, mask.shape)
    x, m = (t.ranked(it, len(shape)) for it in (tensor, t.cast(at_least_1(mask), torch.bool)))
    return t.reshape(t.of(x).mask_fill(x, m, kind_of(tensor.dtype)(value)), shape)


def _extreme(t: Tables, lhs: Tensor, rhs: Tensor, function: str) -> Tensor:
    result = binary(t, function, lhs, rhs)
    if not result.dtype.is_floating_point:
        return result
    # The tables' functions leave a NaN of the second operand out, torch's don't.
    return where(t, unary(t, "isnan", rhs), rhs, result)


def _without_nan(t: Tables, lhs: Tensor, rhs: Tensor, function: str) -> Tensor:
    result = binary(t, function, lhs, rhs)
    if not result.dtype.is_floating_point:
        return result
    return where(t, unary(t, "isnan", lhs), rhs, where(t, unary(t, "isnan", rhs), lhs, result))


maximum, minimum = partial(_extreme, function="max_pair"), partial(_extreme, function="min_pair")
translate(
    maximum=maximum,
    minimum=minimum,
    fmax=partial(_without_nan, function="max_pair"),
    fmin=partial(_without_nan, function="min_pair"),
    remainder=lambda t, x, y: binary(t, "remainder", x, y) if isinstance(x, Tensor) else binary(t, "rremainder", y, x),
    atan2=partial(_of_two_floats, function="atan2"),
    hypot=partial(_of_two_floats, function="hypot"),
    eq=partial(_compared, function="equal"),
    ne=partial(_compared, function="not_equal"),
    gt=partial(_compared, function="greater"),
    ge=partial(_compared, function="greater_equal"),
    lt=partial(_compared, function="lower"),
    le=partial(_compared, function="lower_equal"),
)


@translates("clamp")
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
)


@translates("xlogy")
def xlogy(t: Tables, lhs: Any, rhs: Any) -> Tensor:
    dtype, device = torch.result_type(lhs, rhs), (lhs if isinstance(lhs, Tensor) else rhs).device
    lhs, rhs = (it if isinstance(it, Tensor) else t.full((), it, float_dtype(dtype), device) for it in (lhs, rhs))
    product = mul(t, lhs, unary(t, "log", rhs))
    zero = binary(t, "bool_and", TRANSLATIONS["eq"](t, lhs, 0), unary(t, "logical_not", unary(t, "isnan", rhs)))
    return masked_fill(t, product, zero, 0.0)


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


@translates("hardshrink_backward", "softshrink_backward")
def shrink_backward(t: Tables, grad: Tensor, tensor: Tensor, lambd: float) -> Tensor:
    x = at_least_1(tensor)
    inside = binary(t, "lower_equal", t.float.abs(x), lambd)
    return t.reshape(masked_fill(t, at_least_1(grad), inside, 0.0), grad.shape)
