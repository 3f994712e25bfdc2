"""torch's element types and the names that the safetensors format gives them."""

from collections.abc import Sequence

import torch

from .._dtypes import DTYPES
from ..errors import DTypeError, RecordFormatError

_DTYPES: dict[str, torch.dtype] = {it.record: getattr(torch, it.torch) for it in DTYPES if it.torch}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


def file_dtype(dtype: torch.dtype, tensor_name: str) -> str:
    """The format's name of `dtype`."""
    if dtype not in _NAMES:
        remedy = "store torch.view_as_real(tensor)" if dtype.is_complex else "convert it first"
        raise DTypeError(f"'{tensor_name}' is {plain(dtype)}, which a safetensors file can't hold; {remedy}")
    return _NAMES[dtype]


def torch_dtype(name: str, tensor_name: str, path: str) -> torch.dtype:
    """torch's type for the format's `name`."""
    if name not in _DTYPES:
        raise RecordFormatError(f"{path}: '{tensor_name}' is {name}, a type that torch tensors can't have")
    return _DTYPES[name]


def kind_of(dtype: torch.dtype) -> str:
    """`float`, `complex`, `bool` or `int`: what a conversion must not change."""
    if dtype.is_floating_point or dtype.is_complex:
        return "complex" if dtype.is_complex else "float"
    return "bool" if dtype == torch.bool else "int"


def plain(dtype: torch.dtype) -> str:
    """The dtype without the prefix `torch.`."""
    return str(dtype).removeprefix("torch.")


def shown(dtype: torch.dtype, shape: Sequence[int]) -> str:
    """`float32 [2, 3]`, for messages."""
    return f"{plain(dtype)} {list(shape)}"
