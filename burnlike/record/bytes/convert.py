"""Copies values into another element type, and notices those that the type can't hold."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from ..._dtypes import DTYPES, NATIVE, torch_dtypes
from ...errors import PrecisionError
from ..dtypes import kind_of, plain

# Sums of these types are computed natively on every device; of float8 they are not.
_SUMMABLE = torch_dtypes(NATIVE)
_WITHOUT_INF = torch_dtypes(it for it in DTYPES if it.torch and not it.has_inf)

_FLOAT_REMEDY = "choose another type, list the tensor in Precision(keep=[...]), or set allow_overflow=True"
_INT_REMEDY = "choose a wider type or list the tensor in Precision(keep=[...])"


def pieces(tensor: Tensor, start: int, stop: int) -> Iterator[tuple[Tensor, int]]:
    """Cut the elements `start` to `stop` (row-major) of a tensor of any strides into views.

    Each view comes with the number of elements before it; contiguous memory is one view.
    """
    if tensor.is_contiguous():
        yield tensor.view(-1)[start:stop], 0
        return
    if tensor.dim() == 1:
        yield tensor[start:stop], 0
        return
    row = tensor[0].numel()
    first, last = -(-start // row), stop // row
    if first > last:
        yield from pieces(tensor[last], start - last * row, stop - last * row)
        return
    done = 0
    if start < first * row:
        yield from pieces(tensor[first - 1], start - (first - 1) * row, row)
        done = first * row - start
    if first < last:
        yield tensor[first:last], done
        done += (last - first) * row
    if last * row < stop:
        yield from ((view, done + before) for view, before in pieces(tensor[last], 0, stop - last * row))


def can_lose(source: torch.dtype, target: torch.dtype) -> bool:
    """Whether `target` lacks some values' range or inf, so that a conversion has to be checked."""
    if source == target or kind_of(source) != kind_of(target) or kind_of(source) in ("bool", "complex"):
        return False
    if target in _WITHOUT_INF and source not in _WITHOUT_INF:
        return True
    info = torch.finfo if source.is_floating_point else torch.iinfo
    return info(target).max < info(source).max or info(target).min > info(source).min


def in_dtype(source: Tensor, dtype: torch.dtype) -> Tensor:
    """`source.to(dtype)`; of float64 rounded once, as files are written and read."""
    if source.dtype != torch.float64 or dtype.itemsize > 2:
        return source.to(dtype)
    from ...ops.convert import rounded_once

    return rounded_once(source, dtype)


def copy_converted(into: Tensor, source: Tensor) -> None:
    """`into.copy_(source)`; of float64 rounded once."""
    into.copy_(in_dtype(source, into.dtype) if source.dtype == torch.float64 else source)


def convert_checked(name: str, source: Tensor, into: Tensor) -> None:
    """Copy floats of any device and strides into contiguous memory of the CPU, of another float type."""
    if source.device.type == "cpu" and {source.dtype, into.dtype} <= set(_SUMMABLE):
        from ...ops.convert import convert_new_

        lost = torch.zeros(1, dtype=torch.int32, device="cpu")
        convert_new_([into], [source.resolve_neg()], lost)
        if lost.item():
            check_floats(name, source, into)
        return
    converted = into.copy_(source) if source.device.type == "cpu" else in_dtype(source, into.dtype)
    check_floats(name, source, converted)
    if converted is not into:
        into.copy_(converted)


def check_kept(
    name: str, source: Tensor, converted: Tensor, allow_overflow: bool = False, remedy: str | None = None
) -> None:
    """Raise PrecisionError if a value of `source` does not fit the type of `converted`, which has the same kind."""
    if not can_lose(source.dtype, converted.dtype):
        return
    if not converted.dtype.is_floating_point:
        check_ints(name, source, converted.dtype, remedy or _INT_REMEDY)
    elif not allow_overflow:
        check_floats(name, source, converted, remedy or _FLOAT_REMEDY)


def check_floats(name: str, source: Tensor, converted: Tensor, remedy: str = _FLOAT_REMEDY) -> None:
    """Raise PrecisionError if a value of `source` was too large for the type of `converted`.

    Such a value is finite and became inf, nan or (where torch saturates) the largest value; or is inf where the type
    has none.
    """
    if source.numel() == 0:
        return
    limits = torch.finfo(converted.dtype)
    if converted.dtype in _SUMMABLE:  # one fast pass is enough in nearly every case
        fits = bool(converted.sum().isfinite().item())  # a sum is finite only if all its terms are
    else:
        low, high = _wide(source).aminmax()
        fits = -limits.max <= low.item() and high.item() <= limits.max
    if fits:
        return
    half_step = limits.eps * 2.0 ** math.floor(math.log2(limits.max)) / 2
    before, after = _wide(source), _wide(converted)
    lost = before.isfinite() & (~after.isfinite() | (before.abs() > limits.max + half_step))
    lost |= before.isinf() & ~after.isinf()
    if lost.any().item():
        raise PrecisionError(
            f"'{name}': {before[lost][0].item():g} is too large for {plain(converted.dtype)} (at most {limits.max:g});"
            f" {remedy}"
        )


def check_ints(name: str, source: Tensor, target: torch.dtype, remedy: str = _INT_REMEDY) -> None:
    """Raise if a value of the integer tensor `source` does not fit `target`."""
    if source.numel() == 0:
        return
    limits = torch.iinfo(target)
    # torch has no ordering of uint64: with the top bit turned over, int64's order is the same.
    wide = source.dtype == torch.uint64
    ordered = source.view(torch.int64) ^ -(2**63) if wide else source.to(torch.int64)
    for value in (int(it.item()) + (2**63 if wide else 0) for it in ordered.aminmax()):
        if not limits.min <= value <= limits.max:
            raise PrecisionError(
                f"'{name}': {value} does not fit {plain(target)} ({limits.min} to {limits.max}); {remedy}"
            )


def _wide(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype in _SUMMABLE else tensor.float()
