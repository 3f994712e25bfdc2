"""Converts elements in host memory to Python numbers and back, for every element type, without torch or NumPy.

NumPy may be missing and has no bfloat16; torch would convert NaN and numbers out of range to integers without a word.
"""

import math
import struct
import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ...errors import TensorValueError

# Codes of `array` and of memoryview.cast; "l" has another size on some systems.
_CODES: dict[torch.dtype, Any] = {
    torch.float64: "d",
    torch.float32: "f",
    torch.int64: "q",
    torch.int32: "i",
    torch.int16: "h",
    torch.int8: "b",
    torch.uint64: "Q",
    torch.uint32: "I",
    torch.uint16: "H",
    torch.uint8: "B",
}
_BFLOAT16_NAN = 0x7FC0
_FLOAT16_LIMIT = 65520.0  # from here on, the nearest float16 is infinity

# The casts below read the bytes of records, which are little-endian, as the machine lays them out.
assert sys.byteorder == "little"


def values_of(content: bytes, dtype: torch.dtype) -> list[Any]:
    """The elements as Python numbers."""
    if dtype is torch.bool:
        return [value != 0 for value in content]
    if dtype is torch.float16:
        return list(struct.unpack(f"<{len(content) // 2}e", content))
    if dtype is torch.bfloat16:  # the upper half of a float32
        upper = memoryview(content).cast("H")
        return memoryview(array("I", [bits << 16 for bits in upper])).cast("B").cast("f").tolist()
    return memoryview(content).cast(_CODES[dtype]).tolist()


def bytes_of(values: Iterable[Any], dtype: torch.dtype) -> bytes:
    """Python numbers as elements of `dtype`; integers lose the fraction, and what is no element is refused."""
    if dtype is torch.bool:
        return bytes(1 if value else 0 for value in values)
    if dtype.is_floating_point:
        return _floats(values, dtype)
    try:
        return array(_CODES[dtype], map(int, values)).tobytes()
    except (OverflowError, ValueError) as error:
        raise TensorValueError("Tensor Data", f"a number that {dtype} does not hold: {error}") from error


def cast(content: bytes, source: torch.dtype, target: torch.dtype) -> bytes:
    """Elements of one type as elements of another, as `bytes_of`."""
    return content if source is target else bytes_of(values_of(content, source), target)


def natural_dtype(values: Sequence[Any]) -> torch.dtype:
    """bool if all are, int64 if all are whole numbers, else float32."""
    for kind, dtype in ((bool, torch.bool), (int, torch.int64)):
        if values and all(isinstance(value, kind) for value in values):
            return dtype
    return torch.float32


def _floats(values: Iterable[Any], dtype: torch.dtype) -> bytes:
    if dtype is torch.float64:
        return array("d", values).tobytes()
    single = array("f", values)  # halves are rounded from float32, as torch does
    if dtype is torch.float32:
        return single.tobytes()
    if dtype is torch.float16:
        # struct refuses what rounds to infinity.
        inside = (math.copysign(math.inf, it) if abs(it) >= _FLOAT16_LIMIT else it for it in single)
        return struct.pack(f"<{len(single)}e", *inside)
    return array("H", map(_upper_half, memoryview(single).cast("B").cast("I"))).tobytes()


def _upper_half(bits: int) -> int:
    """A float32's bits rounded to the nearest bfloat16, ties to even."""
    # Rounded, the bits of a NaN could run over into those of a number.
    if bits & 0x7FFFFFFF > 0x7F800000:
        return _BFLOAT16_NAN
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
