"""Whole numbers as bincode writes them: short ones in one byte. Imports no torch.

https://docs.rs/bincode/2.0.1/bincode/config/struct.Configuration.html, "variable" integers, little-endian.
"""

import struct

from ...errors import RecordFormatError
from ..files.source import Cursor

_FORMS = {251: "<H", 252: "<I", 253: "<Q"}


def encoded(number: int) -> bytes:
    """The bytes of a number from 0 to 2**64 - 1."""
    if number < 251:
        return bytes([number])
    if number < 1 << 16:
        return struct.pack("<BH", 251, number)
    return struct.pack("<BI", 252, number) if number < 1 << 32 else struct.pack("<BQ", 253, number)


def zigzag(number: int) -> int:
    """The unsigned number that stands for a signed one: 0, -1, 1, -2, ... are 0, 1, 2, 3, ..."""
    return number * 2 if number >= 0 else -number * 2 - 1


def unzigzag(number: int) -> int:
    """The signed number that `zigzag` made `number` of."""
    return -(number // 2) - 1 if number % 2 else number // 2


def take(cursor: Cursor) -> int:
    """Read a number.

    Raises:
        RecordFormatError: there is none.
    """
    first = cursor.take_byte()
    if first < 251:
        return first
    if first not in _FORMS:
        raise RecordFormatError(
            f"{cursor.source.path}: byte {cursor.position - 1} (0x{first:02x}) begins no number of 64 bits;"
            " the file is damaged, or the layout is that of another model"
        )
    return struct.unpack(_FORMS[first], cursor.take(struct.calcsize(_FORMS[first])))[0]
