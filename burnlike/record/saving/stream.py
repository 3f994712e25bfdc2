"""Writes tensors to a file, block by block: each worker thread converts what belongs into one and writes it.

Large files are written past the page cache (O_DIRECT). A file that is synced waits for the disk anyway, and so costs
neither a copy nor gigabytes of page cache, which a training run has better uses for.
"""

import contextlib
import errno
import fcntl
import itertools
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..bytes.checksums import PartSums
from ..bytes.convert import can_lose, check_ints, convert_checked, copy_converted, pieces
from ..bytes.workers import BLOCK_BYTES, MAX_WORKERS, bytes_at, run_steps
from ..outline import ChecksumSlot

if TYPE_CHECKING:
    from ..bytes.side_stream import CudaSideStream
    from ..files.stored_tensors import FileValues

DIRECT_BYTES = 16 << 20  # files from this size on bypass the page cache
_STEP_ELEMENTS = 1 << 18  # converted and then checked while still in the processor's cache
_READ_ELEMENTS = 1 << 16  # of a file: memory of this size is used again, where larger pieces would pile up
_PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class WrittenTensor:
    """A tensor, of any strides, device or file, as it is to be written: in `dtype`, or as text, see `Payload`."""

    name: str
    values: "Tensor | FileValues"
    dtype: torch.dtype
    json_indent: int | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that are written, unless they are written as text."""
        return self.values.numel() * self.dtype.itemsize

    def fill(self, first: int, values: Tensor, allow_overflow: bool) -> None:
        """Fill `values`, flat and of the part's dtype, with the elements from index `first` on."""
        checked = can_lose(self.values.dtype, self.dtype)
        for begin in range(0, values.numel(), _STEP_ELEMENTS):
            end = min(begin + _STEP_ELEMENTS, values.numel())
            for source, before in self._sources(first + begin, first + end):
                into = values[begin + before : begin + before + source.numel()].view(source.shape)
                if checked and not self.dtype.is_floating_point:
                    check_ints(self.name, source, self.dtype)
                if checked and self.dtype.is_floating_point and not allow_overflow:
                    convert_checked(self.name, source, into)
                else:
                    copy_converted(into, source)

    def _sources(self, start: int, stop: int) -> Iterable[tuple[Tensor, int]]:
        if isinstance(self.values, Tensor):
            return pieces(self.values, start, stop)
        steps = range(start, stop, _READ_ELEMENTS)
        return ((self.values.read(at, min(at + _READ_ELEMENTS, stop)), at - start) for at in steps)


Piece = bytes | WrittenTensor | ChecksumSlot


def _length(piece: Piece) -> int:
    return len(piece) if isinstance(piece, bytes) else piece.nbytes


def total_bytes(content: Sequence[Piece]) -> int:
    return sum(map(_length, content))


def write_pieces(
    descriptor: int, content: Sequence[Piece], allow_overflow: bool = False, stream: "CudaSideStream | None" = None
) -> None:
    """Write the pieces, none of them text, one behind the other, by several threads; `stream` is that of a device."""
    writer = _Writer(descriptor, content, allow_overflow)
    tensors = (it.values for it in content if isinstance(it, WrittenTensor))
    devices = {it.device for it in tensors if isinstance(it, Tensor)}
    gpus = [it for it in devices if it.type == "cuda"]
    for gpu in gpus:  # what is not fetched by the queue is read by threads, which know nothing of the caller's stream
        torch.cuda.current_stream(gpu).synchronize()
    device = next(iter(gpus), None if stream is None else torch.device("cpu"))
    with _direct(descriptor, writer.file_bytes):
        if device is None:
            run_steps(range(writer.blocks), writer.write_block, BLOCK_BYTES, MAX_WORKERS)
        else:
            writer.write_from_device(device, stream)
    if writer.slot is not None:
        text = writer.sums.text()
        _write_all(descriptor, memoryview(text), len(text), writer.slot_start)


class _Writer:
    """The blocks of one file, shared by the workers."""

    def __init__(self, descriptor: int, content: Sequence[Piece], allow_overflow: bool) -> None:
        self.descriptor = descriptor
        lengths = [*map(_length, content)]
        self.slot = next((at for at, piece in enumerate(content) if isinstance(piece, ChecksumSlot)), None)
        self.slot_start = sum(lengths[: self.slot])
        numbers = itertools.accumulate(isinstance(piece, WrittenTensor) for piece in content)
        numbered = zip(content, lengths, numbers, strict=True)
        there = [(piece, number - 1) for piece, length, number in numbered if length]
        self.pieces = [b"0" * piece.nbytes if isinstance(piece, ChecksumSlot) else piece for piece, _ in there]
        self.numbers = [number for _, number in there]  # of the parts, without those between
        self.sums = PartSums(sum(isinstance(piece, WrittenTensor) for piece in content))
        self.stops = list(itertools.accumulate(filter(None, lengths)))
        self.file_bytes = self.stops[-1] if self.stops else 0
        self.blocks = -(-self.file_bytes // BLOCK_BYTES)
        self.allow_overflow = allow_overflow
        # Place in the file -> tensor whose values are in the buffers already.
        self.copied: Mapping[int, WrittenTensor] = {}

    def write_from_device(self, device: torch.device, stream: "CudaSideStream | None") -> None:
        """Write all blocks, a number of them at a time, while the values of the next come from a device."""
        from ..bytes.side_stream import CudaSideStream
        from .device_copy import RANGE_BYTES, images, slices_of

        starts = [0, *self.stops[:-1]]
        self.copied = {
            start: piece
            for start, piece in zip(starts, self.pieces, strict=True)
            if isinstance(piece, WrittenTensor)
            and isinstance(piece.values, Tensor)
            and piece.values.device == device
            and start % piece.dtype.itemsize == 0
        }
        ranges = [(at, min(at + RANGE_BYTES, self.file_bytes)) for at in range(0, self.file_bytes, RANGE_BYTES)]
        slices = slices_of(self.copied, ranges)
        copies = images(slices, ranges, device, stream or CudaSideStream(device), self.allow_overflow)
        for (start, stop), image in zip(ranges, copies, strict=True):

            def write(index: int, _: Tensor, start: int = start, image: Tensor = image) -> None:
                self.write_block(index, image[index * BLOCK_BYTES - start :])

            run_steps(range(start // BLOCK_BYTES, -(-stop // BLOCK_BYTES)), write, BLOCK_BYTES, MAX_WORKERS)

    def write_block(self, index: int, buffer: Tensor) -> None:
        """Put what belongs into a block of the file into `buffer`, converted, and write that."""
        at = start = index * BLOCK_BYTES
        stop = min(start + BLOCK_BYTES, self.file_bytes)
        while at < stop:
            index = bisect_right(self.stops, at)
            piece, stop_of_piece = self.pieces[index], self.stops[index]
            place = self.stops[index - 1] if index else 0
            first = at - place
            count = min(stop, stop_of_piece) - at
            into = buffer[at - start : at - start + count]
            if isinstance(piece, bytes):
                bytes_at(into.data_ptr(), count)[:] = piece[first : first + count]
            else:
                if place not in self.copied:
                    self._fill_values(piece, first, into)
                if self.slot is not None:
                    self.sums.add(self.numbers[index], first, bytes_at(into.data_ptr(), count))
            at += count
        _write_all(self.descriptor, bytes_at(buffer.data_ptr(), buffer.numel()), stop - start, start)

    def _fill_values(self, part: WrittenTensor, first: int, into: Tensor) -> None:
        """Fill `into`, bytes anywhere in the file, with those of `part` from byte `first` on."""
        size = part.dtype.itemsize
        if first % size == 0 == into.numel() % size and into.data_ptr() % size == 0:
            part.fill(first // size, into.view(part.dtype), self.allow_overflow)
            return
        # Other formats than safetensors don't align: convert into memory of its own, step by step.
        skipped, done = first % size, 0
        while done < into.numel():
            count = min(into.numel() - done, _STEP_ELEMENTS)
            begin = (first + done) // size
            values = torch.empty(-(-(skipped + count) // size), dtype=part.dtype, device="cpu")
            part.fill(begin, values, self.allow_overflow)
            into[done : done + count] = values.view(torch.uint8)[skipped : skipped + count]
            done += count
            skipped = (first + done) % size


@contextmanager
def _direct(descriptor: int, file_bytes: int) -> Iterator[None]:
    """Write a large file past the page cache, where the file system can; afterwards it has its exact length."""
    if file_bytes < DIRECT_BYTES or not hasattr(os, "O_DIRECT"):
        yield
        return
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    with contextlib.suppress(OSError):
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_DIRECT)
    try:
        yield
    finally:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)
    os.ftruncate(descriptor, file_bytes)


def _write_all(descriptor: int, buffer: memoryview, count: int, offset: int) -> None:
    """Write the first `count` bytes of `buffer`; past the page cache, whole pages, of which `_direct` cuts the rest."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    direct = bool(flags & getattr(os, "O_DIRECT", 0))
    data = buffer[: -(-count // _PAGE_BYTES) * _PAGE_BYTES if direct else count]
    while data:
        try:
            written = os.pwrite(descriptor, data, offset)
        except OSError as error:
            if error.errno != errno.EINVAL or not direct:
                raise
            # This file system or an interrupted write does not allow it: go on through the page cache.
            fcntl.fcntl(descriptor, fcntl.F_SETFL, flags & ~os.O_DIRECT)
            direct = False
            continue
        data, offset = data[written:], offset + written
