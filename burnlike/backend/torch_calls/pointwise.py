"""Element-wise operators: arithmetic, functions of numbers, comparisons, logic, choices."""

from typing import Any

import torch
from torch import Tensor

from .tables import TRANSLATIONS, Tables, aligned, at_least_1, float_dtype, like_rank, scalar, translate, translates

_OF_FLOATS = (
    *("exp", "log", "log1p", "sqrt", "erf", "cos", "sin", "tan", "cosh", "sinh", "tanh", "acos", "asin", "atan"),
    *("acosh", "asinh", "atanh", "deg2rad", "rad2deg"),
)
_ROUNDING = ("round", "floor", "ceil", "trunc")


def _elementwise(name: str, function: str, *, widen: bool) -> None:
    @translates(name)
    def translated(t: Tables, tensor: Tensor) -> Tensor:
        x = at_least_1(tensor)
        x = t.cast(x, float_dtype(x.dtype)) if widen else x
        return like_rank(getattr(t.of(x), function)(x), tensor)


for _name in _OF_FLOATS:
    _elementwise(_name, _name, widen=True)
for _name in ("neg", "sign", "abs"):
    _elementwise(_name, _name, widen=False)
_elementwise("reciprocal", "recip", widen=True)


def _rounding(name: str) -> None:
    @translates(name)
    def rounded(t: Tables, tensor: Tensor, *, decimals: int = 0) -> Tensor:
        x = at_least_1(tensor)
        if decimals:
            factor, (first, then) = 10.0 ** abs(decimals), ("mul", "div") if decimals > 0 else ("div", "mul")
            return binary(t, then, rounded(t, binary(t, first, tensor, factor)), factor)
        return like_rank(getattr(t.float, name)(x), tensor) if x.dtype.is_floating_point else tensor.detach()


def _test(name: str, function: str) -> None:
    @translates(name)
    def tested(t: Tables, tensor: Tensor) -> Tensor:
        x = at_least_1(tensor)
        if not x.dtype.is_floating_point:
            return t.full(tensor.shape, name == "isfinite", torch.bool, tensor.device)
        return like_rank(getattr(t.float, function)(x), tensor)


for _name in _ROUNDING:
    _rounding(_name)
for _name, _function in (("isnan", "is_nan"), ("isinf", "is_inf"), ("isfinite", "is_finite")):
    _test(_name, _function)


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
    if dtype is torch.bool:
        return binary(t, "bool_or", lhs, rhs, dtype)
    return binary(t, "add", lhs, rhs, dtype)


@translates("sub", "subtract")
def sub(t: Tables, lhs: Any, rhs: Any, alpha: Any = 1) -> Tensor:
    if not isinstance(lhs, Tensor):
        return rsub(t, rhs, lhs, alpha)
    return binary(t, "sub", lhs, _scaled(t, rhs, alpha), torch.result_type(lhs, rhs))


@translates("rsub")
def rsub(t: Tables, tensor: Tensor, other: Any, alpha: Any = 1) -> Tensor:
    if isinstance(other, Tensor):
        return sub(t, other, tensor, alpha)
    return binary(t, "rsub", _scaled(t, tensor, alpha), other, torch.result_type(tensor, other))


@translates("mul", "multiply")
def mul(t: Tables, lhs: Any, rhs: Any) -> Tensor:
    if not isinstance(lhs, Tensor):
        lhs, rhs = rhs, lhs
    dtype = torch.result_type(lhs, rhs)
    return binary(t, "bool_and" if dtype is torch.bool else "mul", lhs, rhs, dtype)


@translates("div", "divide", "true_divide")
def div(t: Tables, lhs: Any, rhs: Any, rounding_mode: str | None = None) -> Tensor:
    dtype = torch.result_type(lhs, rhs)
    if not isinstance(lhs, Tensor):
        lhs = t.full((), lhs, dtype, rhs.device)
    if rounding_mode is None:
        return binary(t, "div", lhs, rhs, float_dtype(dtype))
    if rounding_mode == "floor":
        return _floor_of_floats(t, lhs, rhs) if dtype.is_floating_point else _floor_of_ints(t, lhs, rhs, dtype)
    quotient = binary(t, "div", lhs, rhs, dtype)
    return unary(t, "trunc", quotient) if dtype.is_floating_point else quotient


def _floor_of_ints(t: Tables, lhs: Tensor, rhs: Any, dtype: torch.dtype) -> Tensor:
    whole = binary(t, "sub", lhs, binary(t, "remainder", lhs, rhs, dtype), dtype)
    return binary(t, "div", whole, rhs, dtype)


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


@translates("remainder")
def remainder(t: Tables, lhs: Any, rhs: Any) -> Tensor:
    if not isinstance(lhs, Tensor):
        return binary(t, "rremainder", rhs, lhs)
    return binary(t, "remainder", lhs, rhs)


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
        return _like(t, "square", lhs, dtype)
    return binary(t, "powf" if dtype.is_floating_point else "powi", lhs, rhs, dtype)


def _like(t: Tables, function: str, tensor: Tensor, dtype: torch.dtype) -> Tensor:
    x = t.cast(at_least_1(tensor), dtype)
    return like_rank(getattr(t.of(x), function)(x), tensor)


def _of_two_floats(t: Tables, function: str, lhs: Tensor, rhs: Tensor) -> Tensor:
    return binary(t, function, lhs, rhs, float_dtype(torch.result_type(lhs, rhs)))


translate(
    floor_divide=lambda t, lhs, rhs: div(t, lhs, rhs, "floor"),
    square=lambda t, tensor: _like(t, "square", tensor, tensor.dtype),
    atan2=lambda t, lhs, rhs: _of_two_floats(t, "atan2", lhs, rhs),
    hypot=lambda t, lhs, rhs: _of_two_floats(t, "hypot", lhs, rhs),
    bitwise_left_shift=lambda t, lhs, rhs: binary(t, "bitwise_left_shift", lhs, rhs),
    bitwise_right_shift=lambda t, lhs, rhs: binary(t, "bitwise_right_shift", lhs, rhs),
)
TRANSLATIONS["__lshift__"] = TRANSLATIONS["bitwise_left_shift"]
TRANSLATIONS["__rshift__"] = TRANSLATIONS["bitwise_right_shift"]


def _compared(t: Tables, function: str, lhs: Tensor, rhs: Any) -> Tensor:
    dtype = torch.result_type(lhs, rhs)
    ordered = function not in ("equal", "not_equal")
    return binary(t, function, lhs, rhs, torch.int64 if dtype is torch.bool and ordered else dtype)


translate(
    eq=lambda t, lhs, rhs: _compared(t, "equal", lhs, rhs),
    ne=lambda t, lhs, rhs: _compared(t, "not_equal", lhs, rhs),
    gt=lambda t, lhs, rhs: _compared(t, "greater", lhs, rhs),
    ge=lambda t, lhs, rhs: _compared(t, "greater_equal", lhs, rhs),
    lt=lambda t, lhs, rhs: _compared(t, "lower", lhs, rhs),
    le=lambda t, lhs, rhs: _compared(t, "lower_equal", lhs, rhs),
)


def _logic(name: str, function: str) -> None:
    @translates(f"logical_{name}")
    def logical(t: Tables, lhs: Tensor, rhs: Tensor) -> Tensor:
        return binary(t, function, lhs, rhs, torch.bool)

    @translates(f"bitwise_{name}")
    def bitwise(t: Tables, lhs: Any, rhs: Any) -> Tensor:
        if not isinstance(lhs, Tensor):
            lhs, rhs = rhs, lhs
        dtype = torch.result_type(lhs, rhs)
        return binary(t, function if dtype is torch.bool else f"bitwise_{name}", lhs, rhs, dtype)


for _name in ("and", "or", "xor"):
    _logic(_name, f"bool_{_name}")
    TRANSLATIONS[f"__{_name}__"] = TRANSLATIONS[f"bitwise_{_name}"]


@translates("bitwise_not")
def bitwise_not(t: Tables, tensor: Tensor) -> Tensor:
    if tensor.dtype is torch.bool:
        return logical_not(t, tensor)
    return like_rank(t.int.bitwise_not(at_least_1(tensor)), tensor)


@translates("logical_not")
def logical_not(t: Tables, tensor: Tensor) -> Tensor:
    return like_rank(t.bool.bool_not(t.cast(at_least_1(tensor), torch.bool)), tensor)


@translates("where")
def where(t: Tables, mask: Tensor, chosen: Any, other: Any) -> Tensor:
    dtype = torch.result_type(chosen, other)
    device = mask.device
    chosen, other = (it if isinstance(it, Tensor) else t.full((), it, dtype, device) for it in (chosen, other))
    rank = max(mask.ndim, chosen.ndim, other.ndim)
    shape = torch.broadcast_shapes(mask.shape, chosen.shape, other.shape)
    (x, y), _ = aligned(t, dtype, chosen, other)
    (m,), _ = aligned(t, torch.bool, mask)
    wide = [t.reshape(it, [1] * (max(rank, 1) - it.ndim) + list(it.shape)) for it in (x, y, m)]
    return t.reshape(t.of(dtype).mask_where(wide[1], wide[2], wide[0]), shape)


@translates("masked_fill")
def masked_fill(t: Tables, tensor: Tensor, mask: Tensor, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return where(t, mask, t.cast(value, tensor.dtype), tensor)
    (x,), _ = aligned(t, tensor.dtype, tensor)
    m = at_least_1(mask)
    rank = max(x.ndim, m.ndim)
    x, m = (t.reshape(it, [1] * (rank - it.ndim) + list(it.shape)) for it in (x, t.cast(m, torch.bool)))
    kind = float if tensor.dtype.is_floating_point else bool if tensor.dtype is torch.bool else int
    shape = torch.broadcast_shapes(tensor.shape, mask.shape)
    return t.reshape(t.of(x).mask_fill(x, m, kind(value)), shape)


@translates("maximum")
def maximum(t: Tables, lhs: Tensor, rhs: Tensor) -> Tensor:
    return _extreme(t, "max_pair", lhs, rhs)


@translates("minimum")
def minimum(t: Tables, lhs: Tensor, rhs: Tensor) -> Tensor:
    return _extreme(t, "min_pair", lhs, rhs)


def _extreme(t: Tables, function: str, lhs: Tensor, rhs: Tensor) -> Tensor:
    result = binary(t, function, lhs, rhs)
    if not result.dtype.is_floating_point:
        return result
    # The tables' functions leave a NaN of the second operand out, torch's don't.
    return where(t, TRANSLATIONS["isnan"](t, rhs), rhs, result)


def _without_nan(t: Tables, function: str, lhs: Tensor, rhs: Tensor) -> Tensor:
    isnan, result = TRANSLATIONS["isnan"], binary(t, function, lhs, rhs)
    if not result.dtype.is_floating_point:
        return result
    return where(t, isnan(t, lhs), rhs, where(t, isnan(t, rhs), lhs, result))


translate(
    fmax=lambda t, lhs, rhs: _without_nan(t, "max_pair", lhs, rhs),
    fmin=lambda t, lhs, rhs: _without_nan(t, "min_pair", lhs, rhs),
)
