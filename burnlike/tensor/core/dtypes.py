"""Element types: a list of all, the kind and short name of each, and the type that a creation call asks for."""

from enum import Enum
from typing import Any

import torch

from ..._dtypes import other_name
from ...errors import TensorTypeError, TensorValueError, nearest
from .kinds import Bool, Float, Int, Kind


class DType(Enum):
    """Any element type. A `cast` to it stays in the tensor's kind."""

    F64 = torch.float64
    F32 = torch.float32
    F16 = torch.float16
    BF16 = torch.bfloat16
    I64 = torch.int64
    I32 = torch.int32
    I16 = torch.int16
    I8 = torch.int8
    U64 = torch.uint64
    U32 = torch.uint32
    U16 = torch.uint16
    U8 = torch.uint8
    BOOL = torch.bool


class FloatDType(Enum):
    """An element type of Float tensors. A `cast` to it gives a Float tensor."""

    F64 = torch.float64
    F32 = torch.float32
    F16 = torch.float16
    BF16 = torch.bfloat16


class IntDType(Enum):
    """An element type of Int tensors. A `cast` to it gives an Int tensor."""

    I64 = torch.int64
    I32 = torch.int32
    I16 = torch.int16
    I8 = torch.int8
    U64 = torch.uint64
    U32 = torch.uint32
    U16 = torch.uint16
    U8 = torch.uint8


KINDS: dict[torch.dtype, type[Kind]] = {
    **{member.value: Float for member in FloatDType},
    **{member.value: Int for member in IntDType},
    DType.BOOL.value: Bool,
}
NAMES: dict[torch.dtype, str] = {member.value: member.name.lower() for member in DType}
_BY_NAME = {name: dtype for dtype, name in NAMES.items()}
_LARGEST_EXPONENT = {torch.float16: 11.0, torch.float64: 709.0}
_OF_PYTHON: dict[Any, torch.dtype] = {float: torch.float64, int: torch.int64, bool: torch.bool}


def dtype_name(dtype: torch.dtype) -> str:
    """The short name: `f32`, `bf16`, `i64`, `u8`, `bool`.

    Example:
        >>> import torch
        >>> dtype_name(torch.bfloat16)
        'bf16'
    """
    return NAMES[dtype]


def largest_exponent(dtype: torch.dtype) -> float:
    """The largest x of which e^x can be computed in `dtype`, rounded down."""
    return _LARGEST_EXPONENT.get(dtype, 88.0)


def as_dtype(operation: str, element: Any) -> torch.dtype:
    """A torch dtype from itself, a `DType`, its short or torch's name, or Python's `float`, `int` or `bool`.

    Raises TensorTypeError: none of these, or a dtype that has no kind. Raises TensorValueError: an unknown name.
    """
    if isinstance(element, torch.dtype) and element in NAMES:
        return element
    if isinstance(element, DType | FloatDType | IntDType):
        return element.value
    if element in (float, int, bool):
        return _OF_PYTHON[element]
    if isinstance(element, str):
        name = element.lower()
        dtype = _BY_NAME.get(name) or _BY_NAME.get(other_name(name) or "")
        if dtype is None:
            raise TensorValueError(
                operation, f"no element type '{element}', known: {', '.join(_BY_NAME)}{nearest(element, set(_BY_NAME))}"
            )
        return dtype
    raise TensorTypeError(operation, f"expected an element type such as torch.float32, got {element!r}")


def dtype_of_kind(operation: str, dtype: torch.dtype | DType | str, kind: type[Kind]) -> torch.dtype:
    """`dtype`, which must belong to the kind, as `as_dtype` reads it."""
    element_type = as_dtype(operation, dtype)
    if KINDS[element_type] is not kind:
        raise TensorTypeError(operation, f"{element_type} is no element type of {kind.name} tensors")
    return element_type
