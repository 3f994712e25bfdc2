"""SafetensorsRecorder: records as plain safetensors files, converted while they are written."""

import errno
import os
import shutil
from typing import Any

import torch
from torch import Tensor

from .._atomic_file import AtomicFile
from ..errors import RecordError, RecordIOError
from . import metadata
from .dtypes import file_dtype, torch_dtype
from .lazy_tensors import LazyTensors
from .precision import Precision
from .record import Record
from .safetensors_format import build_header, open_file, read_header
from .stream import Part, write_parts

EXTENSION = ".safetensors"


class SafetensorsRecorder:
    """Writes and reads records as safetensors files, which every safetensors reader opens.

    Saving takes a few megabytes of memory whatever the record's size: each tensor is converted block by block, by
    several threads, and written where it belongs. The file replaces the target only when it is whole and synced to the
    disk; if anything fails, the target is as it was. Ids, aliases of tied tensors and plain values are JSON in the
    file's metadata.

    Args:
        precision: types to store in; None stores each tensor as it is.

    Example:
        >>> import tempfile, torch
        >>> from burnlike.record import BFloat16Precision, Record, SafetensorsRecorder
        >>> record = Record(tensors={"weight": torch.ones(2, 3)}, values={"step": 7})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = SafetensorsRecorder(BFloat16Precision).save(record, f"{folder}/model")
        ...     loaded = SafetensorsRecorder().load(f"{folder}/model.safetensors")
        >>> loaded.tensors["weight"].dtype, loaded.values
        (torch.bfloat16, {'step': 7})
    """

    def __init__(self, precision: Precision | None = None) -> None:
        if precision is not None and not isinstance(precision, Precision):
            raise RecordError(
                f"expected a Precision, got {precision!r}; write Precision(torch.bfloat16) or BFloat16Precision"
            )
        self.precision = precision or Precision(float=None)

    def save(self, record: Record, path: str | os.PathLike[str]) -> str:
        """Write `record` to `path`; `.safetensors` is appended to a name without an extension.

        Returns:
            The path written.

        Raises:
            RecordIOError: the file can't be written; a file that was there is as it was.
            PrecisionError: a value can't be stored in the precision; likewise.
            DTypeError: a tensor's type is not one of the format's; likewise.
            RecordError: a value is no plain value, or a tensor has no values (meta) or no plain memory; likewise.
        """
        if not isinstance(record, Record):
            raise RecordError(
                f"expected a Record, got {type(record).__name__}; for a module use burnlike.record.save(module, path)"
            )
        target = with_extension(path)
        head, parts = self._plan(record)
        file_bytes = parts[-1].start + parts[-1].nbytes if parts else len(head)
        try:
            with AtomicFile(target) as file:
                file.reserve(file_bytes)
                write_parts(file.descriptor, head, parts, self.precision.allow_overflow)
                file.commit()
        except RecordError:
            raise
        except OSError as error:
            raise _write_error(target, file_bytes, error) from error
        return target

    def load(self, path: str | os.PathLike[str]) -> Record:
        """Open the record at `path`; its tensors are read when they are asked for.

        Files of other programs load too; they have no ids and values. The name may lack `.safetensors`.

        Raises:
            RecordIOError: the file can't be read.
            RecordFormatError: it is damaged, truncated, or not a safetensors file.
        """
        found = os.fspath(path)
        if not os.path.exists(found):
            found = with_extension(found)
        descriptor = open_file(found)
        try:
            header = read_header(descriptor, found)
            details = metadata.decode(header.metadata, header.tensors, found)
        except BaseException:
            os.close(descriptor)
            raise
        tensors = LazyTensors(descriptor, found, header)
        return Record(tensors, details.values, details.ids, details.aliases, source=found)

    def _plan(self, record: Record) -> tuple[bytes, list[Part]]:
        """The head of the file and the place of each tensor, from shapes and types alone."""
        entries = []
        tensors: dict[str, Tensor] = {}
        for name, tensor in record.tensors.items():
            tensors[name] = _plain(name, tensor)
            dtype = self.precision.stored_dtype(name, tensor.dtype)
            entries.append((name, file_dtype(dtype, name), tuple(tensor.shape)))
        head, places = build_header(entries, metadata.encode(record.ids, record.aliases, record.values))
        return head, [
            Part(info.name, tensors[info.name], torch_dtype(info.dtype, info.name, ""), info.start, info.nbytes)
            for info in places
        ]


def with_extension(path: str | os.PathLike[str]) -> str:
    """The path, with `.safetensors` where the name has no extension."""
    text = os.fspath(path)
    return text if os.path.splitext(text)[1] else text + EXTENSION


def _plain(name: str, tensor: Any) -> Tensor:
    """The tensor without its gradient history, if it has values in plain memory."""
    if tensor.is_meta:
        raise RecordError(f"'{name}' is on the meta device and has no values; load or initialize the module first")
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested:
        raise RecordError(
            f"'{name}' is a sparse, quantized or nested tensor; convert it by .to_dense() or .dequantize()"
        )
    if type(tensor) not in (Tensor, torch.nn.Parameter) and hasattr(tensor, "__tensor_flatten__"):
        raise RecordError(f"'{name}' is a {type(tensor).__name__}; convert it to a plain tensor, as by .full_tensor()")
    return tensor.detach()


def _write_error(path: str, file_bytes: int, error: OSError) -> RecordIOError:
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
