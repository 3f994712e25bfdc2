"""torch's element types and the names that the safetensors format gives them."""

from collections.abc import Sequence

import torch

from ..errors import DTypeError, RecordFormatError

_NAMES: dict[torch.dtype, str] = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.float8_e4m3fnuz: "F8_E4M3FNUZ",
    torch.float8_e5m2fnuz: "F8_E5M2FNUZ",
    torch.float8_e8m0fnu: "F8_E8M0",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
    torch.complex64: "C64",
}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}


def file_dtype(dtype: torch.dtype, tensor_name: str) -> str:
    """The format's name of `dtype`.

    Raises:
        DTypeError: the format has no such type.
    """
    if dtype not in _NAMES:
        remedy = "store torch.view_as_real(tensor)" if dtype.is_complex else "convert it first"
        raise DTypeError(f"'{tensor_name}' is {plain(dtype)}, which a safetensors file can't hold; {remedy}")
    return _NAMES[dtype]


def torch_dtype(name: str, tensor_name: str, path: str) -> torch.dtype:
    """torch's type for the format's `name`.

    Raises:
        RecordFormatError: torch has no such type.
    """
    if name not in _DTYPES:
        raise RecordFormatError(f"{path}: '{tensor_name}' is {name}, a type that torch tensors can't have")
    return _DTYPES[name]


def kind_of(dtype: torch.dtype) -> str:
    """`float`, `complex`, `bool` or `int`: what a conversion must not change."""
    if dtype.is_floating_point:
        return "float"
    if dtype.is_complex:
        return "complex"
    return "bool" if dtype == torch.bool else "int"


def plain(dtype: torch.dtype) -> str:
    """The dtype without the prefix `torch.`."""
    return str(dtype).removeprefix("torch.")


def shown(dtype: torch.dtype, shape: Sequence[int]) -> str:
    """`float32 [2, 3]`, for messages."""
    return f"{plain(dtype)} {list(shape)}"
