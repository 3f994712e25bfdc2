"""NumPy's arrays as tensors. Imports no NumPy: who has an array has imported it."""

import sys
from typing import Any

import torch
from torch import Tensor

from ...errors import RecordError


def is_array(value: Any) -> bool:
    """Whether it is an array of NumPy."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def tensor_of(array: Any, place: str) -> Tensor:
    """The array as a tensor that shares its memory, where torch can: not if it is read-only or runs backwards.

    Raises:
        RecordError: its type is none of torch's, or its bytes are in the other order.
    """
    shared = array.flags.writeable and all(step >= 0 for step in array.strides)
    try:
        return torch.from_numpy(array if shared else array.copy())
    except (TypeError, ValueError) as error:
        raise RecordError(f"{place} can't become a tensor: {error}") from error
