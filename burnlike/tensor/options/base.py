"""The base of all options, and the checks of sizes: one int for all spatial dimensions or one for each."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Self, TypeAlias

from ...errors import TensorTypeError, TensorValueError, nearest
from ..core.spec import title

Sizes: TypeAlias = int | Sequence[int]
# Padding of both ends alike, or a (begin, end) pair for each dimension.
Padding: TypeAlias = int | Sequence[int] | Sequence[tuple[int, int]]


def frozen_sizes(operation: str, name: str, value: Any, least: int) -> Any:
    """`value` as an int or a tuple of ints, each of which must be at least `least`."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(frozen_size(operation, name, size, least) for size in value)
    return frozen_size(operation, name, value, least)


def frozen_size(operation: str, name: str, value: Any, least: int) -> Any:
    """`value` if it is an int of at least `least`."""
    if type(value) is not int and not hasattr(value, "__index__"):
        raise TensorTypeError(operation, f"{name}: expected an int or one int per dimension, got {value!r}")
    if value < least:
        raise TensorValueError(operation, f"{name}: expected at least {least}, got {value}")
    return value


def frozen_padding(operation: str, value: Any) -> Any:
    """Padding as an int, a tuple of ints, or a tuple of (begin, end) pairs, none negative."""
    if isinstance(value, Sequence) and any(isinstance(pair, Sequence) for pair in value):
        pairs = tuple(frozen_sizes(operation, "padding", pair, 0) for pair in value)
        if not all(type(pair) is tuple and len(pair) == 2 for pair in pairs):
            raise TensorValueError(operation, f"padding: expected one (begin, end) pair per dimension, got {value!r}")
        return pairs
    return frozen_sizes(operation, "padding", value, 0)


def each(operation: str, name: str, value: Any, count: int) -> tuple[Any, ...]:
    """Checked sizes or pairs, one per dimension; a sequence must have `count` of them."""
    if type(value) is not tuple:
        return (value,) * count
    if len(value) != count:
        raise TensorValueError(
            title(operation), f"{name}: expected {count} numbers, one per dimension, got {list(value)}"
        )
    return value


def one_of(operation: str, name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse a value that is none of the known ones."""
    if value not in choices:
        hint = nearest(value, choices) if isinstance(value, str) else ""
        raise TensorValueError(operation, f"{name}: expected one of {list(choices)}, got {value!r}{hint}")


def both_ends(padding: tuple[Any, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Padding, one size or pair per dimension, as sizes of the beginnings and sizes of the ends."""
    if padding and type(padding[0]) is tuple:
        return tuple(pair[0] for pair in padding), tuple(pair[1] for pair in padding)
    return padding, padding


def expansions(fields: dict[str, Any]) -> dict[int, tuple[Any, ...]]:
    """Checked sizes, one per dimension, in the order of `fields`: for each number of dimensions that they allow."""
    lengths = {len(value) for value in fields.values() if type(value) is tuple}
    if len(lengths) > 1:
        return {}
    return {count: tuple(each("", name, it, count) for name, it in fields.items()) for count in lengths or (1, 2, 3)}


def expanded(operation: str, options: Any, count: int) -> tuple[Any, ...]:
    """The sizes that options hold, one per dimension, of which there must be `count`."""
    try:
        sizes = options.expanded.get(count)
    except AttributeError:
        raise TensorTypeError(title(operation), f"expected options, got {type(options).__name__}") from None
    if sizes is not None:
        return sizes
    for field in dataclasses.fields(options):
        each(operation, field.name, getattr(options, field.name), count)
    raise AssertionError("one of the fields has another number of sizes")


class Options:
    """Checks of fields, by their name; each says which class of options it is about.

    Attributes:
        expanded: number of dimensions -> the sizes, one for each dimension; what functions read.
    """

    expanded: "ClassVar[dict[int, tuple[Any, ...]]]"

    def _freeze(self, **least: int) -> None:
        for name, smallest in least.items():
            object.__setattr__(self, name, frozen_sizes(type(self).__name__, name, getattr(self, name), smallest))

    def _freeze_padding(self) -> None:
        object.__setattr__(self, "padding", frozen_padding(type(self).__name__, getattr(self, "padding")))  # noqa: B009

    def _expand(self, *names: str) -> None:
        sizes = expansions({name: getattr(self, name) for name in names})
        object.__setattr__(self, "expanded", sizes)

    def _positive(self, *names: str) -> None:
        for name in names:
            frozen_size(type(self).__name__, name, getattr(self, name), 1)

    def _one_of(self, name: str, choices: tuple[str, ...]) -> None:
        one_of(type(self).__name__, name, getattr(self, name), choices)

    def _with(self, **changes: Any) -> Self:
        replace: Any = dataclasses.replace
        return replace(self, **changes)
