"""Sizes in options: one int for all spatial dimensions or one per dimension, checked before torch sees them."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from ..errors import TensorTypeError, TensorValueError

Sizes: TypeAlias = int | Sequence[int]
# Padding of both ends alike, or a (begin, end) pair for each dimension.
Padding: TypeAlias = int | Sequence[int] | Sequence[tuple[int, int]]


def frozen_sizes(operation: str, name: str, value: Any, least: int) -> Any:
    """`value` as an int or a tuple of ints, each at least `least`.

    Raises:
        TensorValueError: one is below `least`.
        TensorTypeError: neither an int nor a sequence of ints.
    """
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


def each(operation: str, name: str, value: Any, count: int) -> tuple[int, ...]:
    """Checked sizes, one per dimension.

    Raises:
        TensorValueError: a sequence of another length.
    """
    if type(value) is not tuple:
        return (value,) * count
    if len(value) != count:
        raise TensorValueError(operation, f"{name}: expected {count} numbers, one per dimension, got {list(value)}")
    return value


def both_ends(operation: str, padding: Any, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Checked padding as sizes of the beginnings and sizes of the ends, one per dimension."""
    found = each(operation, "padding", padding, count)
    if found and type(found[0]) is tuple:
        pairs: Any = found
        return tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)
    return found, found
