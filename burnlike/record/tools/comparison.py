"""Compares two records, tensor by tensor, in a few megabytes of memory."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from ..files.stored_tensors import LazyTensors, dtype_in, shape_in
from ..layout import LAYOUTS
from ..precision import file_dtype, kind_of
from ..record import Record

T = TypeVar("T")

_CHUNK_ELEMENTS = 1 << 15  # few enough for torch to compute with one thread, and for a cache to hold
_EXACT = 2.0**52  # below it, float64 tells neighbouring integers apart


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """The distances between the values of two tensors of one shape, computed in float64; nan equals nan."""

    count: int  # of those that differ by more than the tolerance
    elements: int
    largest_absolute: float  # `|a - b|` of those that are finite in both
    largest_relative: float  # likewise, `|a - b| / max(|a|, |b|)`
    not_finite: int  # how many are nan in one tensor only, or differ where one is infinite


@dataclass(frozen=True, slots=True)
class TensorDifference:
    """The differences between two tensors of one name; a pair for each fact that differs."""

    name: str
    ids: tuple[str | None, str | None] | None = None
    dtypes: tuple[str, str] | None = None  # as safetensors names them
    shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None  # the values are not compared then
    tied_to: tuple[str, str] | None = None  # the names under which they are stored
    values: ValueDifference | None = None  # None where they were not compared or are equal

    @property
    def is_equal(self) -> bool:
        return not any((self.ids, self.dtypes, self.shapes, self.tied_to, self.values and self.values.count))


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences between two records."""

    missing: list[str]  # names that only the second has
    extra: list[str]  # names that only the first has
    tensors: list[TensorDifference]  # that differ, or (with a tolerance) are equal but for it
    values: dict[str, tuple[Any, Any]] = field(default_factory=dict)  # by path; `MISSING` where one has none
    compared: int = 0  # how many tensors both have, those that are tied in both counted once

    @property
    def other_ids_only(self) -> bool:
        """True if the ids of tensors are all that differs."""
        without_ids = replace(self, tensors=[replace(tensor, ids=None) for tensor in self.tensors])
        return without_ids.is_equal and not self.is_equal

    @property
    def is_equal(self) -> bool:
        """True if the records are equal, within the tolerance."""
        return not (self.missing or self.extra or self.values) and all(tensor.is_equal for tensor in self.tensors)


class _Missing:
    def __repr__(self) -> str:
        return "missing"


MISSING = _Missing()  # in the place of a plain value that only the other record has


def compare(one: Record, other: Record, tolerance: float | None = None, *, ids: bool = True) -> Comparison:
    """Compare two records; those of optimizers by the ids of parameters, and where these differ by their paths.

    A tolerance of None wants equal values and types. A number lets values be apart by as much, absolutely or relative
    to the larger, and floats or integers be of another width. `ids` says whether ids are compared.
    """
    names, others = matched(one, other)
    # A tie that both have is one tensor, as a file has it.
    pairs = {(names.tensors[it], others.tensors[it]): it for it in reversed(names.tensors) if it in others.tensors}
    differences = []
    for (at, at_other), name in reversed(pairs.items()):
        both = _if_other(names.ids.get(name), others.ids.get(name)) if ids else None
        ties = _if_other(names.stored_as[name], others.stored_as[name])
        differences.append(_compare_tensors(name, (one.tensors, at), (other.tensors, at_other), tolerance, both, ties))
    return Comparison(
        missing=[name for name in others.tensors if name not in names.tensors],
        extra=[name for name in names.tensors if name not in others.tensors],
        tensors=[difference for difference in differences if not difference.is_equal or difference.values is not None],
        values=dict(_compare_values(names.values, others.values, "")),
        compared=len(pairs),
    )


def _if_other(one: T, other: T) -> tuple[T, T] | None:
    return (one, other) if one != other else None


Stored = tuple[Mapping[str, Tensor], str]  # the tensors of a record, and a name in them
Reader = Callable[[int, int], Tensor]  # reads the elements from one index to another, flat


def _compare_tensors(
    name: str,
    one: Stored,
    other: Stored,
    tolerance: float | None,
    ids: tuple[str | None, str | None] | None,
    ties: tuple[str, str] | None,
) -> TensorDifference:
    dtypes, values = _if_other(dtype_in(*one), dtype_in(*other)), None
    shapes = _if_other(tuple(shape_in(*one)), tuple(shape_in(*other)))
    same_kind = not dtypes or kind_of(dtypes[0]) == kind_of(dtypes[1])
    if not shapes and same_kind:
        values = _compare_elements(_reader(*one), _reader(*other), prod(shape_in(*one)), tolerance or 0.0)
    is_strict = tolerance is None or not same_kind
    names = (file_dtype(dtypes[0], name), file_dtype(dtypes[1], name)) if dtypes and is_strict else None
    return TensorDifference(name, ids, names, shapes, ties, values)


def _reader(tensors: Mapping[str, Tensor], name: str) -> Reader:
    if isinstance(tensors, LazyTensors):
        return tensors.values_of(name).read
    flat = tensors[name].detach().reshape(-1)
    return lambda start, stop: flat[start:stop].cpu()


def _compare_elements(one: Reader, other: Reader, elements: int, tolerance: float) -> ValueDifference | None:
    count = not_finite = 0
    largest_absolute = largest_relative = 0.0
    for start in range(0, elements, _CHUNK_ELEMENTS):
        stop = min(start + _CHUNK_ELEMENTS, elements)
        first, second = one(start, stop), other(start, stop)
        absolute, size = _distance(first, second)
        broken = ~absolute.isfinite()
        absolute[broken] = 0
        relative = absolute / size.clamp_min(torch.finfo(size.dtype).tiny)
        not_finite += int(broken.sum().item())
        count += int((broken | ((absolute > tolerance) & (relative > tolerance))).sum().item())
        largest_absolute = max(largest_absolute, absolute.max().item())
        largest_relative = max(largest_relative, relative.max().item())
    if not count and not largest_absolute:
        return None
    return ValueDifference(count, elements, largest_absolute, largest_relative, not_finite)


def _distance(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """`|a - b|` and `max(|a|, |b|)` in float64; the distance is nan or inf where a nan or inf has no equal partner."""
    if one.is_complex():
        # Infinite and nan parts count as in real numbers, so the parts are compared each by itself.
        one, other = torch.view_as_real(one.resolve_conj()), torch.view_as_real(other.resolve_conj())
    first, second = one.to(torch.float64), other.to(torch.float64)
    distance = (first - second).abs()
    same = (first == second) | (first.isnan() & second.isnan())
    distance = torch.where(same, 0.0, distance)
    if kind_of(one.dtype) == "int":
        # Subtraction of 64 bits wraps around, and is right wherever the numbers are near.
        exact = one.to(torch.int64) - other.to(torch.int64)
        distance = torch.where(distance < _EXACT, exact.abs().to(torch.float64), distance)
    size = torch.maximum(first.abs(), second.abs())
    return distance, torch.where(size.isfinite(), size, 1.0)


def _compare_values(one: Any, other: Any, path: str) -> Iterator[tuple[str, tuple[Any, Any]]]:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in dict.fromkeys([*one, *other]):
            below = f"{path}.{name}" if path else str(name)
            yield from _compare_values(one.get(name, MISSING), other.get(name, MISSING), below)
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        for index, (item, partner) in enumerate(zip(one, other, strict=True)):
            yield from _compare_values(item, partner, f"{path}[{index}]")
    elif not (type(one) is type(other) and (one == other or (one != one and other != other))):
        yield path, (one, other)


class Names(NamedTuple):
    """The names by which a record's parts are compared, and by them its plain values."""

    tensors: dict[str, str]  # name -> where it is stored; tied tensors are under each of their names
    stored_as: dict[str, str]  # name -> the name of what is stored there
    ids: dict[str, str]  # name -> text of its id, if it has one
    values: Any


def matched(one: Record, other: Record) -> tuple[Names, Names]:
    """The names of two records, so that what belongs together has the same."""
    paths = _paths(one), _paths(other)
    left = [{text: path for text, path in mine.items() if text not in theirs} for mine, theirs in (paths, paths[::-1])]
    common = set(left[0].values()) & set(left[1].values())
    # An id that is in both stays; a parameter that both have under other ids goes by its path.
    renamed = [{text: path for text, path in it.items() if path in common} for it in left]
    if any(len(set(it.values())) < len(it) for it in renamed):
        renamed = [{}, {}]
    if not all(LAYOUTS in it.values for it in (one, other)):  # a format without a place for it says nothing of it
        one, other = (replace(it, values={k: v for k, v in it.values.items() if k != LAYOUTS}) for it in (one, other))
    return _names(one, renamed[0]), _names(other, renamed[1])


def _paths(record: Record) -> Mapping[str, str]:
    paths = record.values.get("paths") if "states" in record.values else None
    return paths if isinstance(paths, Mapping) else {}


def _names(record: Record, renamed: Mapping[str, str]) -> Names:
    stored = {**{name: name for name in record.tensors}, **record.aliases}
    ids = {name: str(record.ids[at]) for name, at in stored.items() if at in record.ids}
    if not renamed:
        return Names(stored, stored, ids, record.values)

    def new_name(name: str) -> str:
        text, dot, below = name.partition(".")
        return f"{renamed.get(text, text)}{dot}{below}"

    shown = {name: new_name(name) for name in stored}
    ids |= {shown[name]: name.partition(".")[0] for name in stored if shown[name] != name}
    values = dict(record.values)
    values["states"] = {new_name(name): value for name, value in record.values["states"].items()}
    values["paths"] = {renamed.get(text, text): path for text, path in _paths(record).items()}
    if LAYOUTS in values:
        values[LAYOUTS] = {
            renamed.get(text, text): [(it.get("path"), it.get("transposed")) for it in note["parts"]]
            if isinstance(note, Mapping)
            else note
            for text, note in values[LAYOUTS].items()
        }
    tensors = {shown[name]: at for name, at in stored.items()}
    return Names(tensors, {name: shown[at] for name, at in tensors.items()}, ids, values)
