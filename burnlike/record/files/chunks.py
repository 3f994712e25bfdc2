"""Tensors whose values lie in several places, as processes that have a part of each wrote them. Imports no torch."""

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from ...errors import RecordFormatError
from ..bytes.source import Source
from ..formats import DTYPE_BITS, StoredTensor


class Chunk(NamedTuple):
    """A box of a tensor: its first index and size in each dimension, and where its values are, in row-major order."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    source: Source
    start: int


class ChunkedSource(Source):
    """Puts the values of a tensor in row-major order while they are read; what is asked for is all that is read."""

    def __init__(self, path: str, item_bytes: int, shape: Sequence[int], chunks: Sequence[Chunk]) -> None:
        self.path = path
        self.stored_bytes = prod(shape) * item_bytes
        self._item_bytes, self._shape, self._chunks = item_bytes, tuple(shape), chunks
        self.parts = {id(chunk.source): chunk.source for chunk in chunks}.values()

    def read_into(self, offset: int, into: memoryview) -> None:
        self.require(offset, len(into))
        if offset % self._item_bytes or len(into) % self._item_bytes:
            raise RecordFormatError(f"{self.path}: its tensors are read by whole elements")
        first = offset // self._item_bytes
        filled = self._fill(self._shape, self._chunks, first, first + len(into) // self._item_bytes, into)
        if filled != len(into):
            raise RecordFormatError(f"{self.path}: {len(into) - filled} bytes of a tensor are in none of its files")

    def _fill(self, shape: Sequence[int], chunks: Sequence[Chunk], first: int, last: int, into: memoryview) -> int:
        """Read the elements from `first` to `last` of a tensor of this shape; how many bytes were there."""
        if first >= last:
            return 0
        if not shape:
            for chunk in chunks:
                chunk.source.read_into(chunk.start, into)
            return len(into)
        row = prod(shape[1:])
        begin, end = -(-first // row), last // row  # the rows that are wanted whole
        if begin > end:
            return self._part_of_row(shape, chunks, first, last, into)
        edge, size = (begin * row - first) * self._item_bytes, (end - begin) * row * self._item_bytes
        return (
            self._part_of_row(shape, chunks, first, begin * row, into[:edge])
            + self._rows(shape, chunks, begin, end, into[edge : edge + size])
            + self._part_of_row(shape, chunks, end * row, last, into[edge + size :])
        )

    def _part_of_row(
        self, shape: Sequence[int], chunks: Sequence[Chunk], first: int, last: int, into: memoryview
    ) -> int:
        if first >= last:
            return 0
        row = prod(shape[1:])
        at = first // row
        inside = [
            Chunk(
                chunk.offsets[1:],
                chunk.sizes[1:],
                chunk.source,
                chunk.start + (at - chunk.offsets[0]) * prod(chunk.sizes[1:]) * self._item_bytes,
            )
            for chunk in chunks
            if chunk.offsets[0] <= at < chunk.offsets[0] + chunk.sizes[0]
        ]
        return self._fill(shape[1:], inside, first - at * row, last - at * row, into)

    def _rows(self, shape: Sequence[int], chunks: Sequence[Chunk], begin: int, end: int, into: memoryview) -> int:
        filled, row_bytes = 0, prod(shape[1:]) * self._item_bytes
        for chunk in chunks:
            low, high = max(begin, chunk.offsets[0]), min(end, chunk.offsets[0] + chunk.sizes[0])
            if low >= high:
                continue
            its_row_bytes = prod(chunk.sizes[1:]) * self._item_bytes
            at, size = chunk.start + (low - chunk.offsets[0]) * its_row_bytes, (high - low) * its_row_bytes
            rows = into[(low - begin) * row_bytes : (high - begin) * row_bytes]
            if its_row_bytes == row_bytes:
                chunk.source.read_into(at, rows)
            elif size:
                self._place(chunk, at, size, rows, (high - low, *shape[1:]))
            filled += size
        return filled

    def _place(self, chunk: Chunk, at: int, size: int, into: memoryview, shape: Sequence[int]) -> None:
        """Read a chunk's rows, which are narrower than those of the tensor, to their places."""
        values = bytearray(size)
        chunk.source.read_into(at, memoryview(values))
        target = elements_in(into, self._item_bytes).view(list(shape))
        for dim, (offset, length) in enumerate(zip(chunk.offsets[1:], chunk.sizes[1:], strict=True), 1):
            target = target.narrow(dim, offset, length)
        target.copy_(elements_in(values, self._item_bytes).view(target.shape))


def elements_in(memory: bytearray | memoryview, item_bytes: int) -> Any:
    """The elements in some memory as a flat tensor of it: of unsigned integers, which torch copies bit for bit."""
    import torch

    dtype = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)[item_bytes.bit_length() - 1]
    return torch.frombuffer(memory, dtype=dtype)


def stored_in_chunks(name: str, dtype: str, shape: tuple[int, ...], chunks: Sequence[Chunk], path: str) -> StoredTensor:
    """A tensor that is made of chunks; a RecordFormatError if these are not exactly the tensor."""
    what = f"{path}: the tensor '{name[:80]}'"
    distinct = {(chunk.offsets, chunk.sizes): chunk for chunk in chunks}  # one that several processes wrote counts once
    for offsets, sizes in distinct:
        ends = [*zip(offsets, sizes, shape, strict=False)]
        if not len(offsets) == len(sizes) == len(shape) or any(at + size > length for at, size, length in ends):
            raise RecordFormatError(f"{what} of shape {[*shape[:16]]} has a part of another shape, or beyond it")
    covered = sum(prod(sizes) for _, sizes in distinct)
    if covered != prod(shape):
        raise RecordFormatError(
            f"{what} has {covered} of {prod(shape)} elements in its files: some are missing, or not of one save; fetch"
            " the directory again"
        )
    if DTYPE_BITS[dtype] % 8:
        raise RecordFormatError(f"{what} has elements of {DTYPE_BITS[dtype]} bits, which are not read in parts")
    present = [value for value in distinct.values() if 0 not in value.sizes]
    if len(present) == 1:
        return StoredTensor(name, dtype, shape, present[0].source, present[0].start)
    return StoredTensor(name, dtype, shape, ChunkedSource(path, DTYPE_BITS[dtype] // 8, shape, present), 0)
