"""Dimension arguments: negative ones count from the end, others are refused before anything is computed."""

from collections.abc import Iterable
from typing import Any

from ...errors import TensorTypeError, TensorValueError
from .spec import title


def axis(operation: str, dim: Any, rank: int) -> int:
    """`dim` as 0 .. rank-1. One outside of -rank .. rank-1, and what is no int, is refused."""
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
    """Each of `dims` as 0 .. rank-1. One that is outside, or named twice, is refused."""
    found = [axis(operation, dim, rank) for dim in dims]
    if len(set(found)) != len(found):
        raise TensorValueError(operation, f"dimensions {list(dims)} name one dimension twice")
    return found


def _index(operation: str, dim: Any) -> int:
    try:
        return dim.__index__()
    except AttributeError:
        raise TensorTypeError(operation, f"expected a dimension as an int, got {type(dim).__name__}") from None


def whole(name: str, dim: Any) -> TensorTypeError:
    """The error of a reduction of all elements, `name`, that gets a dimension, several, or `keepdim` alone."""
    if dim is None:
        return TensorTypeError(title(name), f"{name}() reduces all elements to shape [1] and takes no keepdim")
    if isinstance(dim, int):
        call, drop = f"{name}_dim({dim})", f"squeeze_dim({dim})"
    elif name in ("any", "all"):
        call, drop = f"{name}_dim(dim) for one after the other", f"squeeze_dims({[*dim]}, rank)"
    else:
        call, drop = f"{name}_dims({[*dim]})", f"squeeze_dims({[*dim]}, rank)"
    where = f" (with the indices: {name}_dim_with_indices)" if name in ("max", "min") else ""
    return TensorTypeError(
        title(name), f"{name}() reduces all elements; use {call}{where}, which keeps the size 1, and {drop} to drop it"
    )


def along(name: str, dim: Any) -> TensorTypeError:
    """The error of a reduction along one dimension, `name`, that gets `keepdim`."""
    return TensorTypeError(
        title(name), f"{name}(dim) keeps the size 1 and takes no keepdim; squeeze_dim({dim}) drops the dimension"
    )
