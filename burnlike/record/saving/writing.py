"""Writes a record's file: an outline and its tensors become bytes, which replace the file whole or not at all.

Where each byte's place is known before, blocks are filled and written by several threads: each worker converts what
belongs into one. Large files are written past the page cache (O_DIRECT): a file that is synced waits for the disk
anyway, and so costs neither a copy nor gigabytes of page cache, which a training run has better uses for.

Bytes whose lengths depend on the values (text, gzip), and those in memory, are written from front to back.
"""

import errno
import fcntl
import os
import shutil
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

import torch
from torch import Tensor

from ..._atomic import AtomicFile
from ...errors import RecordError, RecordIOError
from ...module.torch_objects.wrappers import is_distributed
from ...ops.crc32 import crc32
from ..bytes.source import combined
from ..bytes.values import (
    BLOCK_BYTES,
    MAX_WORKERS,
    CudaSideStream,
    bytes_at,
    can_lose,
    check_ints,
    convert_checked,
    copy_converted,
    pieces,
    run_steps,
)
from ..files.stored_tensors import FileValues, LazyTensors
from ..formats import ChecksumSlot, Format, Outline, Payload
from ..precision import torch_dtype

CHUNK_BYTES = 1 << 19  # of a tensor, that are converted at a time
TEXT_BYTES = 1 << 14  # of a tensor, that become text at a time, many times as long
_NUMBERS = [str(value).encode() for value in range(256)]
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"  # as flate2 writes it: no time, unknown system
_GZIP_LEVEL = 6
DIRECT_BYTES = 16 << 20  # files from this size on bypass the page cache
_STEP_ELEMENTS = 1 << 18  # converted and then checked while still in the processor's cache
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
            whole, start, stop = self.values, first + begin, first + end
            parts = pieces(whole, start, stop) if isinstance(whole, Tensor) else whole.pieces(start, stop)
            for source, before in parts:
                into = values[begin + before : begin + before + source.numel()].view(source.shape)
                if checked and not self.dtype.is_floating_point:
                    check_ints(self.name, source, self.dtype)
                if checked and self.dtype.is_floating_point and not allow_overflow:
                    convert_checked(self.name, source, into)
                else:
                    copy_converted(into, source)


Piece = bytes | WrittenTensor | ChecksumSlot


def write_file(
    path: str,
    file_format: Format,
    outline: Outline,
    tensors: Mapping[str, Tensor],
    allow_overflow: bool = False,
    like: str | None = None,
) -> None:
    """Replace the file at `path`; a new file gets the owner and permissions of the file `like`."""
    content = list(content_of(file_format, outline, tensors))
    positioned, file_bytes = not file_format.compressed, 0
    for piece in content:
        file_bytes += len(piece) if isinstance(piece, bytes) else piece.nbytes
        if isinstance(piece, WrittenTensor):
            # Text has no place that is known; and several threads would go back and forth in what is read forwards.
            read_in_order = isinstance(piece.values, FileValues) and piece.values.entry.sequential
            positioned = positioned and piece.json_indent is None and not read_in_order
    try:
        with AtomicFile(path, like) as file:
            if positioned:
                # A full disk shows before any value is converted.
                file.reserve(file_bytes)
                write_pieces(file.descriptor, content, allow_overflow)
            else:
                with open(file.descriptor, "wb", closefd=False) as sink:
                    write_sequential(sink, content, file_format.compressed, allow_overflow)
            file.commit()
    except RecordError:
        raise
    except OSError as error:
        raise write_error(path, file_bytes if positioned else None, error) from error


def content_of(file_format: Format, outline: Outline, tensors: Mapping[str, Tensor]) -> Iterator[Piece]:
    """The bytes and tensors of an outline's file, in order."""
    for segment in file_format.segments(outline):
        yield written_tensor(tensors, outline, segment) if isinstance(segment, Payload) else segment


def written_tensor(tensors: Mapping[str, Tensor], outline: Outline, payload: Payload) -> WrittenTensor:
    name = payload.name
    values = tensors.values_of(name) if isinstance(tensors, LazyTensors) else plain_tensor(name, tensors[name])
    return WrittenTensor(name, values, torch_dtype(outline.entries[name].dtype, name, ""), payload.json_indent)


def plain_tensor(name: str, tensor: Any) -> Tensor:
    """The tensor without its gradient history."""
    if tensor.is_meta:
        raise RecordError(f"'{name}' is on the meta device and has no values; load or initialize the module first")
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested:
        raise RecordError(
            f"'{name}' is a sparse, quantized or nested tensor; convert it by .to_dense() or .dequantize()"
        )
    if type(tensor) in (Tensor, torch.nn.Parameter):
        return tensor.detach()
    if is_distributed(tensor):
        raise RecordError(
            f"'{name}' is a DTensor, of which each process has a part; let all processes save it to a directory, by"
            " burnlike.record.DistributedRecorder().save(record, path), or save tensor.full_tensor()"
        )
    if hasattr(tensor, "__tensor_flatten__"):
        raise RecordError(f"'{name}' is a {type(tensor).__name__}; convert it to a plain tensor")
    return tensor.detach()


def write_pieces(
    descriptor: int, content: Sequence[Piece], allow_overflow: bool = False, stream: CudaSideStream | None = None
) -> None:
    """Write the pieces, none of them text, one behind the other, by several threads; `stream` is that of a device."""
    writer = _Writer(descriptor, content, allow_overflow)
    device = None if stream is None else torch.device("cpu")
    gpus: set[torch.device] = set()
    for piece in writer.pieces:
        values = piece.values if isinstance(piece, WrittenTensor) else None
        if isinstance(values, Tensor) and values.device.type == "cuda" and values.device not in gpus:
            # What a queue does not fetch is read by threads, which know nothing of the caller's stream.
            torch.cuda.current_stream(values.device).synchronize()
            gpus.add(device := values.device)
    with _direct(descriptor, writer.file_bytes):
        if device is None:
            run_steps(range(writer.blocks), writer.write_block, BLOCK_BYTES, MAX_WORKERS)
        else:
            writer.write_from_device(device, stream)
    if writer.slot_start is not None:
        text = writer.checksums()
        # After `_direct`: a few bytes at any offset can't be written past the page cache.
        _write_all(descriptor, memoryview(text), len(text), writer.slot_start)


class _Writer:
    """The blocks of one file, shared by the workers."""

    def __init__(self, descriptor: int, content: Sequence[Piece], allow_overflow: bool) -> None:
        self.descriptor = descriptor
        self.allow_overflow = allow_overflow
        self.pieces: list[bytes | WrittenTensor] = []  # those that have bytes
        self.stops: list[int] = []  # where each of them ends in the file
        self.sums: list[list[tuple[int, int, int]]] = []  # of each piece, blocks: first byte, number, checksum
        self.slot_start: int | None = None  # where the checksums belong
        self.summed: list[list[tuple[int, int, int]]] = []  # the sums of the tensors, the empty ones among them
        self.file_bytes = 0
        for piece in content:
            sums: list[tuple[int, int, int]] = []
            if isinstance(piece, WrittenTensor):
                self.summed.append(sums)
            elif isinstance(piece, ChecksumSlot):
                self.slot_start = self.file_bytes
            if count := len(piece) if isinstance(piece, bytes) else piece.nbytes:
                self.file_bytes += count
                self.pieces.append(b"0" * count if isinstance(piece, ChecksumSlot) else piece)
                self.stops.append(self.file_bytes)
                self.sums.append(sums)
        self.blocks = -(-self.file_bytes // BLOCK_BYTES)
        # Place in the file -> tensor whose values are in the buffers already.
        self.copied: Mapping[int, WrittenTensor] = {}

    def checksums(self) -> bytes:
        """The checksums of all tensors, from those of their blocks, which were written in any order."""
        text = b""
        for blocks in self.summed:
            total = 0
            for number, (_, count, checksum) in enumerate(sorted(blocks)):
                total = combined(total, checksum, count) if number else checksum
            text += b"%08x" % total
        return text

    def write_from_device(self, device: torch.device, stream: CudaSideStream | None) -> None:
        """Write all blocks, a number of them at a time, while the values of the next come from a device."""
        from .background import RANGE_BYTES, images, slices_of

        starts = [0, *self.stops[:-1]]
        self.copied = {
            start: piece
            for start, piece in zip(starts, self.pieces, strict=True)
            if isinstance(piece, WrittenTensor)
            and isinstance(piece.values, Tensor)
            and piece.values.device == device
            # A view of the bytes as elements needs their alignment; other parts are converted by the threads.
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
                if self.slot_start is not None:
                    # Here, while the block is in the processor's cache; reading it for this again would cost a pass
                    # over memory.
                    self.sums[index].append((first, count, crc32(bytes_at(into.data_ptr(), count))))
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
    with suppress(OSError):
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_DIRECT)
    try:
        yield
    finally:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)
    # The last block was written as whole pages.
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


def write_sequential(sink: BinaryIO, content: Iterable[Piece], compressed: bool, allow_overflow: bool = False) -> None:
    """Write the pieces to `sink`, converted chunk by chunk, and gzipped if `compressed`."""
    slot: int | None = None  # where the checksums belong
    checksums: list[int] = []

    def chunks() -> Iterator[bytes | memoryview]:
        nonlocal slot
        written = 0  # before the slot, where there is nothing but bytes
        for piece in content:
            if isinstance(piece, bytes):
                written += len(piece)
                yield piece
            elif isinstance(piece, ChecksumSlot):
                slot = written
                yield b"0" * piece.nbytes
            elif piece.json_indent is not None:
                yield from _json(piece, piece.json_indent, allow_overflow)
            else:
                checksum = 0
                for chunk in _raw(piece, allow_overflow):
                    checksum = checksum if slot is None else crc32(chunk, checksum)
                    yield chunk
                checksums.append(checksum)

    for chunk in _gzipped(chunks()) if compressed else chunks():
        sink.write(chunk)
    if slot is not None:
        sink.seek(slot)
        sink.write(b"".join(b"%08x" % checksum for checksum in checksums))


def _raw(part: WrittenTensor, allow_overflow: bool) -> Iterator[memoryview]:
    """The part's bytes in chunks that are valid until the next one."""
    total, size = part.values.numel(), part.dtype.itemsize
    count = min(total, CHUNK_BYTES // size)
    buffer = torch.empty(count, dtype=part.dtype, device="cpu")
    for first in range(0, total, max(count, 1)):
        values = buffer[: min(count, total - first)]
        part.fill(first, values, allow_overflow)
        yield bytes_at(values.data_ptr(), values.numel() * size)


def _json(part: WrittenTensor, indent: int, allow_overflow: bool) -> Iterator[bytes]:
    """The part's bytes as a JSON array of numbers, as serde_json writes it."""
    if part.nbytes == 0:
        yield b"[]"
        return
    outer, inner = (b"", b"") if indent < 0 else (b"\n" + b" " * indent, b"\n" + b" " * (indent + 2))
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


def write_error(path: str, file_bytes: int | None, error: OSError) -> RecordIOError:
    """The error of a save; None for a file whose size is not known, as that of text."""
    directory = os.path.dirname(os.path.realpath(path))
    what = error.strerror or str(error)
    size = "the record" if file_bytes is None else _megabytes(file_bytes)
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            free = _megabytes(shutil.disk_usage(directory).free)
            needed = "" if file_bytes is None else f": the record needs {size}, {free} are free"
            reason = f"the disk or quota is full{needed}; make room or choose another disk"
        case errno.EFBIG:
            reason = f"a file of {size} is larger than allowed here (file system or `ulimit -f`)"
        case errno.ENOENT | errno.ENOTDIR:
            reason = f"the directory {directory} does not exist; create it first"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            reason = f"the directory {directory} can't be written to ({what}); choose another or change its permissions"
        case _:
            reason = f"writing {size} failed: {what}"
    wrapped = RecordIOError(f"{path}: not saved, {reason}; a file that was there is as it was")
    # By which programs tell a full disk from other reasons.
    wrapped.errno = error.errno
    return wrapped


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB ({count} bytes)"
