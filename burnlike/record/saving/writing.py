"""Writes one file: an outline and its tensors become bytes, which replace the file whole or not at all."""

import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from ..._atomic_file import AtomicFile
from ...errors import RecordError, RecordIOError
from ...module.identity.torch_wrappers import is_distributed
from ..dtypes import torch_dtype
from ..files.lazy_tensors import FileValues, LazyTensors
from ..formats import Format
from ..outline import Outline, Payload
from .sequential import write_sequential
from .stream import Part, Piece, total_bytes, write_pieces


def write_file(
    path: str,
    file_format: Format,
    outline: Outline,
    tensors: Mapping[str, Tensor],
    allow_overflow: bool = False,
    like: str | None = None,
) -> None:
    """Replace the file at `path`.

    Args:
        path: the file.
        file_format: its format.
        outline: what is written.
        tensors: the values of its entries, of any types.
        allow_overflow: do not check that finite values stay finite.
        like: a file whose owner and permissions a new file gets.

    Raises:
        RecordError, PrecisionError, DTypeError: see `FileRecorder.save`; the file is as it was.
        RecordIOError: the file can't be written; it is as it was.
    """
    content = list(content_of(file_format, outline, tensors))
    positioned = not file_format.compressed and all(_can_be_written_anywhere(piece) for piece in content)
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
    """The bytes and tensors of an outline's file, in order.

    Raises:
        RecordError: the format has no place for something; a tensor has no values or no plain memory.
    """
    for segment in file_format.segments(outline):
        yield part_of(tensors, outline, segment) if isinstance(segment, Payload) else segment


def part_of(tensors: Mapping[str, Tensor], outline: Outline, payload: Payload) -> Part:
    """The values that are to be written at `payload`."""
    name = payload.name
    values = tensors.values_of(name) if isinstance(tensors, LazyTensors) else plain_tensor(name, tensors[name])
    return Part(name, values, torch_dtype(outline.entries[name].dtype, name, ""), payload.json_indent)


def plain_tensor(name: str, tensor: Any) -> Tensor:
    """The tensor without its gradient history.

    Raises:
        RecordError: it has no values, or no plain memory.
    """
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


def _can_be_written_anywhere(piece: Piece) -> bool:
    """Whether its place is known, and its values can be read by several threads without going back and forth."""
    if not isinstance(piece, Part):
        return True
    read_in_order = isinstance(piece.values, FileValues) and piece.values.entry.sequential
    return piece.json_indent is None and not read_in_order


def write_error(path: str, file_bytes: int, error: OSError) -> RecordIOError:
    """The error for a failure while a record was written."""
    directory = os.path.dirname(os.path.abspath(path))
    what = error.strerror or str(error)
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            free = shutil.disk_usage(directory).free
            reason = (
                f"the disk or quota is full: the record needs {_megabytes(file_bytes)}, {_megabytes(free)} are free;"
                " make room or choose another disk"
            )
        case errno.EFBIG:
            reason = f"a file of {_megabytes(file_bytes)} is larger than allowed here (file system or `ulimit -f`)"
        case errno.ENOENT | errno.ENOTDIR:
            reason = f"the directory {directory} does not exist; create it first"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            reason = f"the directory {directory} can't be written to ({what}); choose another or change its permissions"
        case _:
            reason = f"writing {_megabytes(file_bytes)} failed: {what}"
    found = RecordIOError(f"{path}: not saved, {reason}; a file that was there is as it was")
    found.errno = error.errno
    return found


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB ({count} bytes)"
