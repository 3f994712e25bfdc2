"""The Spec and the sizes of a new tensor, from the arguments of a creation call."""

from collections.abc import Sequence
from typing import Any

import torch

from ...errors import TensorTypeError, TensorValueError
from .dtypes import DType, dtype_of_kind
from .kinds import MAX_RANK, Bool, Float, Int, Kind
from .spec import Spec, family_of


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
