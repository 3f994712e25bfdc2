"""Dimension arguments: negative ones count from the end, all others are refused before anything is computed."""

from collections.abc import Iterable
from typing import Any

from ...errors import TensorTypeError, TensorValueError


def axis(operation: str, dim: Any, rank: int) -> int:
    """`dim` as 0 .. rank-1.

    Raises:
        TensorValueError: outside of -rank .. rank-1.
        TensorTypeError: not an int.
    """
    if type(dim) is not int:
        dim = _index(operation, dim)
    if 0 <= dim < rank:
        return dim
    if -rank <= dim < 0:
        return dim + rank
    raise TensorValueError(
        operation, f"dimension {dim} is outside of {-rank}..{rank - 1}, those of a rank {rank} tensor"
    )


def axes_of(operation: str, dims: Iterable[Any], rank: int) -> list[int]:
    """Each of `dims` as 0 .. rank-1.

    Raises:
        TensorValueError: one is outside of -rank .. rank-1, or named twice.
    """
    found = [axis(operation, dim, rank) for dim in dims]
    if len(set(found)) != len(found):
        raise TensorValueError(operation, f"dimensions {list(dims)} name one dimension twice")
    return found


def _index(operation: str, dim: Any) -> int:
    try:
        return dim.__index__()
    except AttributeError:
        raise TensorTypeError(operation, f"expected a dimension as an int, got {type(dim).__name__}") from None
