"""Sums, means, extremes, orders, norms."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .pointwise import binary, unary, where
from .shape import narrow, squeeze
from .tables import (
    TRANSLATIONS,
    Tables,
    at_least_1,
    count_of,
    dims_of,
    float_dtype,
    like_rank,
    scalar,
    translate,
    translates,
    without,
)

Dims = int | Sequence[int] | None


def _sum_dtype(tensor: Tensor) -> torch.dtype:
    return tensor.dtype if tensor.dtype.is_floating_point else torch.int64


def _total(
    t: Tables, tensor: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None, function: str
) -> Tensor:
    dims, dtype = dims_of(tensor, dim), dtype or _sum_dtype(tensor)
    if len(dims) == max(tensor.ndim, 1) and not keepdim:
        return scalar(t.apply(tensor, function, dtype=dtype))
    return t.apply(tensor, f"{function}_dim", dims, keepdim, dtype=dtype)


@translates("prod")
def prod(t: Tables, tensor: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    dtype = dtype or _sum_dtype(tensor)
    if dim is None:
        return scalar(t.apply(tensor, "prod", dtype=dtype))
    return t.apply(tensor, "prod_dim", dim, keepdim, dtype=dtype)


def _extreme(name: str) -> None:
    @translates(f"a{name}")
    def extreme(t: Tables, tensor: Tensor, dim: Dims = (), keepdim: bool = False) -> Tensor:
        if tensor.dtype is torch.bool:
            return t.cast(extreme(t, t.cast(tensor, torch.uint8), dim, keepdim), torch.bool)
        x, dims = at_least_1(tensor), dims_of(tensor, dim)
        if len(dims) == x.ndim and not keepdim:
            return getattr(t.of(x), name)(x).reshape(())
        return without(t, getattr(t.of(x), f"{name}_dim")(x, dims), dims, keepdim, tensor)

    @translates(name)
    def extreme_with_index(t: Tables, tensor: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
        x = at_least_1(tensor)
        if dim is None:
            return extreme(t, tensor)
        if tensor.dtype is torch.bool:
            values, places = extreme_with_index(t, t.cast(tensor, torch.uint8), dim, keepdim)
            return t.cast(values, torch.bool), places
        extremes = getattr(t.of(x), f"{name}_dim_with_indices")(x, dim, torch.int64)
        return tuple(without(t, it, dims_of(tensor, dim), keepdim, tensor) for it in extremes)

    @translates(f"arg{name}")
    def place(t: Tables, tensor: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        x = at_least_1(tensor)
        if dim is None:
            flat = t.reshape(x, [x.numel()])
            places = getattr(t.of(x), f"arg{name}")(flat, 0, torch.int64)
            return places.reshape([1] * tensor.ndim if keepdim else ())
        places = getattr(t.of(x), f"arg{name}")(x, dim, torch.int64)
        return without(t, places, dims_of(tensor, dim), keepdim, tensor)


_extreme("max")
_extreme("min")


@translates("var_mean")
def var_mean(
    t: Tables, tensor: Tensor, dim: Any = None, *options: bool, correction: float | None = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    if isinstance(dim, bool):  # the overload `(tensor, unbiased)`
        dim, options = None, (dim,)
    if options:
        correction, keepdim = float(options[0]), keepdim or (len(options) > 1 and options[1])
    correction = 1.0 if correction is None else correction
    x, dims = at_least_1(tensor), dims_of(tensor, dim)
    if len(dims) == 1 and correction in (0, 1):
        var, middle = t.float.var_mean(x, dims[0], bool(correction))
    else:
        middle = t.float.mean_dim(x, dims, True)
        squares = t.float.sum_dim(t.float.square(t.float.sub(x, middle)), dims, True)
        free = count_of(tensor, dims) - correction
        var = t.float.mul(squares, 1 / free if free > 0 else math.nan)
    return without(t, var, dims, keepdim, tensor), without(t, middle, dims, keepdim, tensor)


def _truth(t: Tables, tensor: Tensor, dim: Dims = None, keepdim: bool = False, *, function: str) -> Tensor:
    x, dtype = at_least_1(tensor), torch.uint8 if tensor.dtype is torch.uint8 else torch.bool  # as torch
    if dim is None:
        return scalar(t.cast(getattr(t.of(x), function)(x), dtype))
    dims = dims_of(tensor, dim)
    for each in dims:
        x = getattr(t.of(x), f"{function}_dim")(x, each)
    return without(t, t.cast(x, dtype), dims, keepdim, tensor)


def _cumulative(t: Tables, tensor: Tensor, dim: int, function: str) -> tuple[Tensor, Tensor]:
    values = getattr(t.of(tensor), function)(tensor, dim)
    # The place of the last element so far that is the extreme.
    size = tensor.shape[dim]
    places = t.int.arange(0, size, 1, torch.int64, tensor.device)
    places = t.reshape(places, [size if index == dim % tensor.ndim else 1 for index in range(tensor.ndim)])
    is_it = binary(t, "equal", values, tensor)
    if tensor.dtype.is_floating_point:
        is_it = binary(t, "bool_or", is_it, unary(t, "isnan", tensor))
    return values, t.int.cummax(where(t, is_it, places, 0), dim)


translate(
    sum=partial(_total, function="sum"),
    mean=partial(_total, function="mean"),
    cumsum=lambda t, x, dim, *, dtype=None: t.apply(x, "cumsum", dim, dtype=dtype or _sum_dtype(x)),
    cumprod=lambda t, x, dim, *, dtype=None: t.apply(x, "cumprod", dim, dtype=dtype or _sum_dtype(x)),
    any=partial(_truth, function="any"),
    all=partial(_truth, function="all"),
    cummax=partial(_cumulative, function="cummax"),
    cummin=partial(_cumulative, function="cummin"),
    var=lambda t, tensor, *args, **kwargs: var_mean(t, tensor, *args, **kwargs)[0],
    linalg_cross=lambda t, lhs, rhs, *, dim=-1: t.float.cross(lhs, rhs, dim),
    trace=lambda t, tensor: t.module.trace(tensor).reshape(()),
)


@translates("linalg_vector_norm")
def vector_norm(
    t: Tables, tensor: Tensor, ord: float = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    x, dims = at_least_1(tensor), dims_of(tensor, dim)
    x = t.cast(x, dtype or float_dtype(x.dtype))
    return without(t, t.module.vector_norm(x, float(ord), dims), dims, keepdim, tensor)


@translates("equal")
def equal(t: Tables, lhs: Tensor, rhs: Tensor) -> bool:
    if lhs.shape != rhs.shape:
        return False
    return lhs.numel() == 0 or t.bool.truth(t.bool.all(at_least_1(TRANSLATIONS["eq"](t, lhs, rhs))))


@translates("sort")
def sort(
    t: Tables, tensor: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False
) -> tuple[Tensor, Tensor]:
    x = at_least_1(tensor)
    values, places = t.of(x).sort_with_indices(x, dim, descending, torch.int64)
    return like_rank(values, tensor), like_rank(places, tensor)


@translates("topk")
def topk(
    t: Tables, tensor: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Tensor, Tensor]:
    if largest:
        return t.of(tensor).topk_with_indices(tensor, k, dim, torch.int64)
    values, places = sort(t, tensor, dim)
    return narrow(t, values, dim, 0, k), narrow(t, places, dim, 0, k)


@translates("kthvalue")
def kthvalue(t: Tables, tensor: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    kth = (narrow(t, it, dim, k - 1, 1) for it in sort(t, tensor, dim))
    values, places = kth if keepdim else (squeeze(t, it, dim) for it in kth)
    return values, places


@translates("median")
def median(t: Tables, tensor: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    if dim is None:
        return median(t, t.reshape(tensor, [tensor.numel()]), 0)[0]
    x = at_least_1(tensor)
    medians = t.float.median_with_indices(x, dim, torch.int64) if x.dtype.is_floating_point else None
    if medians is None:  # the table of integers has no median
        place = (x.shape[dim] - 1) // 2
        medians = [narrow(t, it, dim, place, 1) for it in sort(t, x, dim)]
    else:  # the tables' median leaves NaN out, torch's does not
        missing = unary(t, "isnan", x)
        first = t.int.argmax(t.cast(missing, torch.int64), dim, torch.int64)
        has = t.bool.any_dim(missing, dim)
        medians = [where(t, has, math.nan, medians[0]), where(t, has, first, medians[1])]
    return tuple(without(t, it, dims_of(tensor, dim), keepdim, tensor) for it in medians)
