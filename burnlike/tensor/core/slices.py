"""Slice, its written forms, and the part of a shape that it selects."""

import builtins
import dataclasses
import operator
from collections.abc import Sequence
from typing import Any, Self, TypeAlias

import torch

from ...errors import TensorTypeError, TensorValueError

Ranges: TypeAlias = tuple[builtins.slice, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Slice:
    """A range of one dimension. A negative step takes the same range from its last element backwards.

    Bounds below zero count from the end, and bounds outside of the dimension are moved to it: a range that starts at
    or behind its end selects nothing.

    Attributes:
        start: the first index.
        end: the index behind the last one; None for the end of the dimension.
        step: the distance between two indices, not 0.

    Example:
        >>> Slice.parse("1..5;-2")
        Slice(start=1, end=5, step=-2)
    """

    start: int = 0
    end: int | None = None
    step: int = 1

    def __post_init__(self) -> None:
        if self.step == 0:
            raise TensorValueError("Slice", "a step of 0 selects nothing; expected 1 or more, or -1 or less")

    @classmethod
    def index(cls, index: int) -> Self:
        """The range of one index."""
        return cls(index, None if index == -1 else index + 1)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `a..b`, `a..=b` (with b), `a..`, `..b`, `..` or one index, each with an optional `;step`.

        Raises TensorValueError: the text is none of these.
        """
        bounds, _, step = text.partition(";")
        try:
            stride = int(step) if step.strip() or ";" in text else 1
            if ".." not in bounds:
                one = cls.index(int(bounds))
                return dataclasses.replace(one, step=stride)
            first, _, last = (part.strip() for part in bounds.partition(".."))
            start = int(first) if first else 0
            if last.startswith("="):
                return cls(start, cls.index(int(last[1:])).end, stride)
            return cls(start, int(last) if last else None, stride)
        except TensorValueError:
            raise
        except ValueError:
            raise TensorValueError(
                "Slice", f"expected a range such as '1..5', '..=-2', '3..' or '0..10;-2', got {text!r}"
            ) from None


SliceForm: TypeAlias = int | builtins.slice | Slice | range | str | Sequence[int | None]
"""An index (its dimension stays), `a:b:step`, a Slice, a range, a text, or `[start, end]`, `[start, end, step]`."""

Slices: TypeAlias = int | builtins.slice | Slice | range | str | Sequence[SliceForm]
"""One form for the first dimension, or a list of forms, one for each dimension."""


class SliceMaker:
    """`s[...]` writes slices as between brackets: `s[0:2, :, ::-1]`."""

    __slots__ = ()

    def __getitem__(self, forms: "SliceForm | tuple[SliceForm, ...]") -> tuple[Slice, ...]:
        """One Slice for each part. Raises TensorValueError: a step of 0.

        Raises TensorTypeError: not a form of a slice.
        """
        parts = forms if isinstance(forms, tuple) else (forms,)
        return tuple(_to_slice("Slice", part) for part in parts)


s = SliceMaker()
"""Makes ranges as in Burn's `s!`: `x.slice(s[0:2, ..., -1])`."""


def ranges_of(operation: str, forms: Any, tensor: torch.Tensor) -> tuple[Ranges, Sequence[int]]:
    """Slices for the leading dimensions of `tensor`, with positive steps, and which of them are walked backwards.

    `forms` is one form, or a list or tuple of at most as many as there are dimensions.
    """
    if type(forms) is not list and type(forms) is not tuple:
        forms = (forms,)
    if len(forms) > tensor.ndim:
        raise TensorValueError(
            operation, f"{len(forms)} slices for a tensor of rank {tensor.ndim}; expected at most one per dimension"
        )
    ranges: list[builtins.slice] = []
    backwards: list[int] | None = None
    for form in forms:
        kind = type(form)
        if kind is builtins.slice:
            bounds = form
        elif (kind is list or kind is tuple) and len(form) == 3:
            bounds = builtins.slice(form[0], form[1], form[2])
        elif kind is int:
            bounds = builtins.slice(form, None if form == -1 else form + 1)
        else:
            as_slice = form if kind is Slice else _to_slice(operation, form)
            bounds = builtins.slice(as_slice.start, as_slice.end, as_slice.step)
        step = bounds.step
        if step is not None and step < 1:
            backwards = [] if backwards is None else backwards
            backwards.append(len(ranges))
            bounds = _forwards(operation, bounds, tensor.shape[len(ranges)])
        ranges.append(bounds)
    return tuple(ranges), backwards or ()


def size_of(bounds: builtins.slice, size: int) -> int:
    """The number of elements that a slice selects of a dimension."""
    start, stop = _bounds(bounds, size)
    stride = abs(bounds.step or 1)
    return (stop - start + stride - 1) // stride


def _bounds(bounds: builtins.slice, size: int) -> tuple[int, int]:
    # Not `slice.indices`: in compiled code sizes are symbols.
    start = _clamped(bounds.start or 0, size)
    return start, max(start, size if bounds.stop is None else _clamped(bounds.stop, size))


def _clamped(index: int, size: int) -> int:
    return min(index, size) if index >= 0 else max(index + size, 0)


def _forwards(operation: str, bounds: builtins.slice, size: int) -> builtins.slice:
    """The indices that a slice of negative step selects, in rising order: it counts from the last one."""
    if bounds.step == 0:
        raise TensorValueError(operation, "a step of 0 selects nothing; expected 1 or more, or -1 or less")
    start, stop = _bounds(bounds, size)
    count = size_of(bounds, size)
    return (
        builtins.slice(stop - 1 + bounds.step * (count - 1), stop, -bounds.step)
        if count
        else builtins.slice(start, start)
    )


def _to_slice(operation: str, form: Any) -> Slice:
    index: Any = form
    if isinstance(form, Slice):
        return form
    if isinstance(form, str):
        return Slice.parse(form)
    if isinstance(form, builtins.slice):
        return Slice(form.start or 0, form.stop, 1 if form.step is None else form.step)
    if isinstance(form, range):
        if form.step < 0:
            raise TensorValueError(
                operation, f"{form} counts down; write [start, end, {form.step}]: the range from its end backwards"
            )
        return Slice(form.start, form.stop, form.step)
    if isinstance(form, list | tuple) and 1 <= len(form) <= 3:
        start, end, step = (*form, *(None, None, None)[len(form) :])
        return Slice(start or 0, end, 1 if step is None else step)
    try:
        return Slice.index(operator.index(index))
    except TypeError:
        raise TensorTypeError(
            operation, f"expected an index, a:b:step, [start, end, step], a range or a text, got {form!r}"
        ) from None
