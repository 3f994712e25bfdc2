"""CRC-32 of tensors' bytes: computed block by block in any order, and checked when values are read. Imports no torch.

The checksum of two blocks one behind the other follows from theirs and the second one's length: a byte of zeros
multiplies a checksum by a fixed matrix over GF(2) (M. Adler, zlib's crc32_combine).
"""

import sys
import threading
import zlib
from functools import cache

from ...errors import RecordFormatError
from .source import Source

HEX_DIGITS = 8
_POLYNOMIAL = 0xEDB88320
_STEP_BYTES = 1 << 20


def combined(first: int, second: int, second_bytes: int) -> int:
    """The checksum of bytes of which the first ones have the checksum `first`, the `second_bytes` after them `second`.

    >>> import zlib
    >>> combined(zlib.crc32(b"ab"), zlib.crc32(b"cde"), 3) == zlib.crc32(b"abcde")
    True
    """
    power = 0
    while second_bytes:
        if second_bytes & 1:
            first = _times(_zeros(power), first)
        second_bytes >>= 1
        power += 1
    return first ^ second


@cache
def _zeros(power: int) -> tuple[int, ...]:
    """The matrix of 2**power bytes of zeros, column by column."""
    if power == 0:
        matrix = (_POLYNOMIAL, *(1 << bit for bit in range(31)))  # of one bit
        for _ in range(3):
            matrix = tuple(_times(matrix, column) for column in matrix)
        return matrix
    half = _zeros(power - 1)
    return tuple(_times(half, column) for column in half)


def _times(matrix: tuple[int, ...], vector: int) -> int:
    product = 0
    for column in matrix:
        if not vector:
            break
        if vector & 1:
            product ^= column
        vector >>= 1
    return product


def crc32(data: memoryview, start: int = 0) -> int:
    """The checksum of bytes that lie behind those with the checksum `start`.

    By the native op; by zlib in a program without torch, whose import takes longer than most files.
    """
    if "torch" not in sys.modules:
        return zlib.crc32(data, start)
    from ...ops import crc32 as native

    return native(data, start)


def checksum_of(source: Source, start: int, count: int) -> int:
    buffer = memoryview(bytearray(min(count, _STEP_BYTES)))
    checksum = 0
    for at in range(0, count, _STEP_BYTES):
        piece = buffer[: min(_STEP_BYTES, count - at)]
        source.read_into(start + at, piece)
        checksum = crc32(piece, checksum)
    return checksum


class CheckedSource(Source):
    """A part of a source whose checksum, if it has one, is compared before the first of its bytes is handed out."""

    def __init__(self, source: Source, start: int, size: int, crc32: int | None, name: str) -> None:
        self.path, self.stored_bytes, self.budget = source.path, size, source.budget
        self._source, self._start, self._crc32, self._name = source, start, crc32, name
        self._lock = threading.Lock()
        self._is_checked = crc32 is None

    def read_into(self, offset: int, into: memoryview) -> None:
        with self._lock:
            if not self._is_checked:
                self._check()
        self.require(offset, len(into))
        self._source.read_into(self._start + offset, into)

    def check_length(self) -> None:
        self._source.check_length()

    def verify(self) -> bool:
        if self._crc32 is None:
            return False
        self._check()
        return True

    def _check(self) -> None:
        if checksum_of(self._source, self._start, self.stored_bytes) != self._crc32:
            raise RecordFormatError(
                f"{self.path}: the bytes of '{self._name[:80]}' are not those that were saved (its CRC-32 differs): the"
                " file is damaged; fetch or save it again"
            )
        self._is_checked = True
