"""A record's bytes from front to back: for formats whose lengths depend on the values (text, gzip), and for memory."""

import zlib
from collections.abc import Iterable, Iterator
from typing import Protocol

import torch

from ..files.checksums import crc32
from ..outline import ChecksumSlot
from .stream import Part, Piece, bytes_at

CHUNK_BYTES = 1 << 19
"""Bytes of a tensor that are converted at a time."""

TEXT_BYTES = 1 << 14
"""Bytes of a tensor that become text at a time, many times as long."""

_NUMBERS = [str(value).encode() for value in range(256)]
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"  # as flate2 writes it: no time, unknown system
_GZIP_LEVEL = 6


class Sink(Protocol):
    """Takes bytes one after the other."""

    def write(self, data: bytes | bytearray | memoryview, /) -> object:
        """Take `data`, which the caller may overwrite afterwards."""
        ...

    def seek(self, offset: int, /) -> object:
        """Go on at `offset`."""
        ...


def write_sequential(sink: Sink, content: Iterable[Piece], compressed: bool, allow_overflow: bool = False) -> None:
    """Write the pieces to `sink`, converted chunk by chunk.

    Args:
        sink: where to.
        content: in file order.
        compressed: whether to write a gzip stream of them.
        allow_overflow: do not check that finite values stay finite.

    Raises:
        OSError: the sink failed.
        PrecisionError: a value can't be stored in its part's dtype.
    """
    sums = _Sums()
    chunks = _chunks(content, allow_overflow, sums)
    for chunk in _gzipped(chunks) if compressed else chunks:
        sink.write(chunk)
    if sums.slot is not None:
        sink.seek(sums.slot)
        sink.write(b"".join(b"%08x" % checksum for checksum in sums.checksums))


class _Sums:
    """The checksums of the tensors that were written.

    Attributes:
        slot: the offset at which they belong; None where they belong nowhere.
        checksums: in the order of the file.
    """

    def __init__(self) -> None:
        self.slot: int | None = None
        self.checksums: list[int] = []

    def over(self, chunks: Iterable[memoryview]) -> Iterator[memoryview]:
        """The chunks of one tensor, whose checksum is noted."""
        checksum = 0
        for chunk in chunks:
            checksum = crc32(chunk, checksum)
            yield chunk
        self.checksums.append(checksum)


def _chunks(content: Iterable[Piece], allow_overflow: bool, sums: _Sums) -> Iterator[bytes | memoryview]:
    written = 0  # before the slot, where there is nothing but bytes
    for piece in content:
        if isinstance(piece, bytes):
            written += len(piece)
            yield piece
        elif isinstance(piece, ChecksumSlot):
            sums.slot = written
            yield b"0" * piece.nbytes
        elif piece.json_indent is not None:
            yield from _json(piece, piece.json_indent, allow_overflow)
        elif sums.slot is None:
            yield from _raw(piece, allow_overflow)
        else:
            yield from sums.over(_raw(piece, allow_overflow))


def _raw(part: Part, allow_overflow: bool) -> Iterator[memoryview]:
    """The part's bytes in chunks that are valid until the next one."""
    total, size = part.values.numel(), part.dtype.itemsize
    count = min(total, CHUNK_BYTES // size)
    buffer = torch.empty(count, dtype=part.dtype, device="cpu")
    for first in range(0, total, max(count, 1)):
        values = buffer[: min(count, total - first)]
        part.fill(first, values, allow_overflow)
        yield bytes_at(values.data_ptr(), values.numel() * size)


def _json(part: Part, indent: int, allow_overflow: bool) -> Iterator[bytes]:
    """The part's bytes as a JSON array of numbers, as serde_json writes it."""
    if part.nbytes == 0:
        yield b"[]"
        return
    outer = b"" if indent < 0 else b"\n" + b" " * indent
    inner = b"" if indent < 0 else b"\n" + b" " * (indent + 2)
    yield b"[" + inner
    between = b""
    for chunk in _raw(part, allow_overflow):
        for start in range(0, len(chunk), TEXT_BYTES):
            numbers = map(_NUMBERS.__getitem__, chunk[start : start + TEXT_BYTES])
            yield between + (b"," + inner).join(numbers)
            between = b"," + inner
    yield outer + b"]"


def _gzipped(chunks: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    checksum = length = 0
    yield _GZIP_HEADER
    for chunk in chunks:
        checksum = zlib.crc32(chunk, checksum)
        length += len(chunk)
        yield packer.compress(chunk)
    yield packer.flush() + checksum.to_bytes(4, "little") + (length % 2**32).to_bytes(4, "little")
