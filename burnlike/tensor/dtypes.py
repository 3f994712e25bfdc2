"""Names of element types: Burn's `DType`, `FloatDType` and `IntDType`, and how they and strings become torch's."""

from enum import Enum
from typing import Any

import torch

from ..errors import TensorTypeError, nearest


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


DTYPES: dict[str, torch.dtype] = {member.name.lower(): member.value for member in DType}


def dtype_of(operation: str, dtype: Any) -> torch.dtype:
    """The torch dtype of a torch dtype, a member of the enums here, or a name such as `bf16`.

    Raises:
        TensorTypeError: none of these; the message names the nearest.
    """
    if type(dtype) is torch.dtype:
        return dtype
    if isinstance(dtype, DType | FloatDType | IntDType):
        return dtype.value
    if isinstance(dtype, str):
        found = DTYPES.get(dtype.lower())
        if found is not None:
            return found
    hint = nearest(dtype, list(DTYPES)) if isinstance(dtype, str) else ""
    raise TensorTypeError(
        operation, f"expected a torch dtype, a DType or one of {', '.join(DTYPES)}, got {dtype!r}{hint}"
    )
