"""Writes one file: an outline and its tensors become bytes, which replace the file whole or not at all.

Bytes whose lengths depend on the values (text, gzip), and those in memory, are written from front to back.
"""

import errno
import os
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO

import torch
from torch import Tensor

from ..._atomic import AtomicFile
from ...errors import RecordError, RecordIOError
from ...module.torch_objects.wrappers import is_distributed
from ..bytes.checksums import crc32
from ..bytes.workers import bytes_at
from ..dtypes import torch_dtype
from ..files.stored_tensors import FileValues, LazyTensors
from ..formats import Format
from ..outline import ChecksumSlot, Outline, Payload
from .stream import Piece, WrittenTensor, total_bytes, write_pieces

CHUNK_BYTES = 1 << 19  # of a tensor, that are converted at a time
TEXT_BYTES = 1 << 14  # of a tensor, that become text at a time, many times as long
_NUMBERS = [str(value).encode() for value in range(256)]
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"  # as flate2 writes it: no time, unknown system
_GZIP_LEVEL = 6


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
    positioned = not file_format.compressed and not any(map(_is_written_in_order, content))
    file_bytes = total_bytes(content)
    try:
        with AtomicFile(path, like) as file:
            if positioned:
                file.reserve(file_bytes)
                write_pieces(file.descriptor, content, allow_overflow)
            else:
                with open(file.descriptor, "wb", closefd=False) as sink:
                    write_sequential(sink, content, file_format.compressed, allow_overflow)
            file.commit()
    except RecordError:
        raise
    except OSError as error:
        raise write_error(path, file_bytes, error) from error


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
    if is_distributed(tensor):
        raise RecordError(
            f"'{name}' is a DTensor, of which each process has a part; let all processes save it to a directory, by"
            " burnlike.record.DistributedRecorder().save(record, path), or save tensor.full_tensor()"
        )
    if type(tensor) not in (Tensor, torch.nn.Parameter) and hasattr(tensor, "__tensor_flatten__"):
        raise RecordError(f"'{name}' is a {type(tensor).__name__}; convert it to a plain tensor")
    return tensor.detach()


def _is_written_in_order(piece: Piece) -> bool:
    """Whether its place is not known, or several threads would go back and forth to read its values."""
    if not isinstance(piece, WrittenTensor):
        return False
    return piece.json_indent is not None or (isinstance(piece.values, FileValues) and piece.values.entry.sequential)


def write_error(path: str, file_bytes: int, error: OSError) -> RecordIOError:
    directory = os.path.dirname(os.path.abspath(path))
    what, size = error.strerror or str(error), _megabytes(file_bytes)
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            free = _megabytes(shutil.disk_usage(directory).free)
            reason = (
                f"the disk or quota is full: the record needs {size}, {free} are free; make room or choose another disk"
            )
        case errno.EFBIG:
            reason = f"a file of {size} is larger than allowed here (file system or `ulimit -f`)"
        case errno.ENOENT | errno.ENOTDIR:
            reason = f"the directory {directory} does not exist; create it first"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            reason = f"the directory {directory} can't be written to ({what}); choose another or change its permissions"
        case _:
            reason = f"writing {size} failed: {what}"
    found = RecordIOError(f"{path}: not saved, {reason}; a file that was there is as it was")
    found.errno = error.errno
    return found


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB ({count} bytes)"


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
