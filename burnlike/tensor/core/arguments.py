"""Dimensions, and the sizes and Spec of a new tensor: wrong ones are refused before anything is computed."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ...errors import TensorTypeError, TensorValueError
from .dtypes import DType, dtype_of_kind
from .kinds import MAX_RANK, Bool, Float, Int, Kind
from .spec import Spec, family_of, title


def axis(operation: str, dim: Any, rank: int) -> int:
    """`dim` as 0 .. rank-1. One outside of -rank .. rank-1, and what is no int, is refused."""
    if type(dim) is not int:
        try:
            dim = dim.__index__()
        except AttributeError:
            raise TensorTypeError(operation, f"expected a dimension as an int, got {type(dim).__name__}") from None
    if 0 <= dim < rank:
        return dim
    if -rank <= dim < 0:
        return dim + rank
    raise TensorValueError(
        operation, f"dimension {dim} is outside of {-rank}..{rank - 1}, those of a rank {rank} tensor"
    )


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


def created(
    operation: str, shape: Any, backend: Any, kind: type[Kind] = Float, dtype: torch.dtype | DType | str | None = None
) -> tuple[Spec, Sequence[int]]:
    """The Spec of a new tensor of `shape`: the backend's element type for the kind, unless `dtype` names one.

    Raises TensorTypeError: a dtype of another kind, or no shape.
    Raises TensorValueError: a rank that no tensor has, or a negative size.
    """
    family = family_of(backend)
    if dtype is not None:
        dtype = dtype_of_kind(operation, dtype, kind)
    elif kind is Float:
        dtype = backend.float_dtype
    elif kind is Int:
        dtype = backend.int_dtype
    elif kind is Bool:
        dtype = torch.bool
    else:
        raise TensorTypeError(operation, f"expected Float, Int or Bool as the kind, got {kind!r}")
    if type(shape) is not tuple or not shape or min(shape) < 0 or len(shape) > MAX_RANK:
        shape = sizes_of(operation, shape)
    return family[dtype][len(shape)], shape  # pyright: ignore[reportArgumentType]


def sizes_of(operation: str, shape: Any) -> Sequence[int]:
    """A tuple or list of 1 to 8 sizes, each 0 or above; all else is refused."""
    if not isinstance(shape, tuple | list):
        raise TensorTypeError(operation, f"expected the sizes as a tuple such as (2, 3), got {shape!r}")
    check_rank(operation, len(shape))
    for size in shape:
        if size < 0:
            raise TensorValueError(operation, f"expected sizes of 0 or above, got {list(shape)}")
    return shape


def check_rank(operation: str, rank: int) -> int:
    """`rank` if a tensor can have it; outside of 1 to 8 it is refused."""
    if not 1 <= rank <= MAX_RANK:
        raise TensorValueError(operation, f"a rank of 1 to {MAX_RANK} is needed, this would be rank {rank}")
    return rank


def each_dim(operation: str, dims: Iterable[Any], rank: int) -> list[int]:
    """Each of `dims` as 0 .. rank-1, once: what is reduced has size 1, so that a second time changes nothing."""
    axes = [axis(operation, dim, rank) for dim in listed(operation, dims)]
    return axes if len(set(axes)) == len(axes) else list(dict.fromkeys(axes))


def listed(operation: str, dims: Any) -> Iterable[Any]:
    if isinstance(dims, int):
        raise TensorTypeError(operation, f"expected a sequence of dimensions, got {dims}; use [{dims}]")
    return dims
