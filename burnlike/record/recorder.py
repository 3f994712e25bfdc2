"""Recorder: writes records in a format and a precision; and FileRecorder, which the formats here share."""

import contextlib
import io
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..errors import RecordError, RecordFormatError
from ..module.torch_objects.wrappers import local
from .bytes.budget import MAX_NAME
from .bytes.source import BytesSource, FileSource, Source
from .bytes.values import check_kept, in_dtype
from .files.reading import read_source
from .files.stored_tensors import LazyTensors
from .formats import DEFAULT_EXTENSION, EXTENSIONS, Format, Outline, TensorEntry, check_name, detect, format_of_path
from .precision import Precision, PrecisionRule, file_dtype, stored_dtype_of
from .record import Record, record_of
from .saving.background import OnBusy, SaveHandle, SaveThread, snapshot, wait_for_saves
from .saving.writing import content_of, plain_tensor, write_file, write_sequential
from .state_dict.module_state import kept_tensors


class Recorder(ABC):
    """Writes records somewhere and reads them back. Yours may write anywhere: it needs these two methods."""

    @abstractmethod
    def save(self, record: Record, path: str | os.PathLike[str]) -> str:
        """Write `record` to `path`; returns the path written."""

    @abstractmethod
    def load(self, path: str | os.PathLike[str], layout: Any = None) -> Record:
        """Read the record that `save` wrote to `path`; formats that carry no names need a `burnlike.record.layout`."""


class FileRecorder(Recorder):
    """Writes and reads files of one format, in a precision; None stores each tensor as it is.

    Saving takes a few megabytes of memory whatever the record's size: each tensor is converted piece by piece on its
    way into the file, by several threads where the format's lengths don't depend on the values. The file replaces the
    target only when it is whole and synced to the disk; if anything fails, the target is as it was.
    """

    format: Format

    def __init__(self, precision: PrecisionRule | None = None) -> None:
        self.precision, self._allow_overflow = checked_precision(precision)

    def save(self, record: Record, path: str | os.PathLike[str]) -> str:
        """Write `record`, or that of anything which `Record.of` takes but a module, to `path`.

        The format's extension is appended to a name without one. Returns the path written.

        Raises:
            RecordIOError: the file can't be written; in this and any other case one that was there is as it was.
            PrecisionError: a value can't be stored in the precision.
            DTypeError: a tensor's type is not one of the format's.
            RecordError: a value is not plain, a tensor has no values (meta) or no plain memory, the format has no
                place for something, or the name is that of a file of torch.save.
        """
        record = record_to_save(record)
        target = self._target(path)
        wait_for_saves(target)
        return self._save(outline_of(record, self.precision), record.tensors, target)

    def save_async(self, record: Record, path: str | os.PathLike[str], on_busy: OnBusy = "wait") -> SaveHandle:
        """Write `record` to `path` in the background, see `save`: once this returns, its tensors may change.

        It takes memory for a copy of all values in the types of the file, so as many bytes as that has, until the file
        is written. Only records that lie in a file themselves are not copied. Errors that the copying shows are raised
        at once, others by the handle.

        Args:
            on_busy: whether to "wait" for the save before this one, of this recorder or to this path, and only then to
                copy; or to "refuse" by a SavePendingError.
        """
        record = record_to_save(record)
        target = self._target(path)
        wait_for_saves(target, self, on_busy)
        outline, tensors = snapshot(outline_of(record, self.precision), record.tensors, self._allow_overflow)
        thread = SaveThread(lambda: self._save(outline, tensors, target), target, self)
        thread.start()
        return SaveHandle(thread)

    def load(self, path: str | os.PathLike[str], layout: Any = None) -> Record:
        """Open the record at `path`; its tensors are read when they are asked for. The name may lack the extension.

        Raises RecordIOError if the file can't be read, RecordFormatError if it is damaged or not of this format.
        """
        path_text = os.fspath(path)
        if not os.path.exists(path_text):
            path_text = with_extension(path_text, self.format.extension)
        return self._read(FileSource(path_text), layout)

    def to_bytes(self, record: Record) -> bytes:
        """The bytes that `save` would write; errors as there."""
        record = record_to_save(record)
        memory = io.BytesIO()  # hands its bytes over without copying them
        content = content_of(self.format, outline_of(record, self.precision), record.tensors)
        write_sequential(memory, list(content), self.format.compressed, self._allow_overflow)
        return memory.getvalue()

    def from_bytes(self, data: bytes | bytearray | memoryview, layout: Any = None) -> Record:
        """The record that `to_bytes` made `data` of; see `load`."""
        return self._read(BytesSource(data), layout)

    def _read(self, source: Source, layout: Any) -> Record:
        try:
            return record_of(*read_source(source, self.format, layout))
        except RecordFormatError as error:
            message = None
            with contextlib.suppress(RecordFormatError):
                if (detected := detect(source)).extension != self.format.extension:
                    message = f"expected a file of {self.format.name}, got one of {detected.name}"
            if message is None:
                raise
            raise RecordFormatError(
                f"{source.path}: {message}; burnlike.record.open_record opens files of every format"
            ) from error

    def _target(self, path: str | os.PathLike[str]) -> str:
        check_name(path)
        return with_extension(path, self.format.extension)

    def _save(self, outline: Outline, tensors: Mapping[str, Tensor], target: str) -> str:
        write_file(target, self.format, outline, tensors, self._allow_overflow)
        return target


def record_to_save(source: Any) -> Record:
    """The record of what a recorder is given."""
    if isinstance(source, torch.nn.Module):
        raise RecordError(
            f"expected a Record, got {type(source).__name__}; write Record.from_module(module), or use"
            " burnlike.record.save(module, path)"
        )
    return Record.of(source)


def checked_precision(precision: PrecisionRule | None) -> tuple[PrecisionRule, bool]:
    """The precision, or that which stores each tensor as it is; and whether values may become inf."""
    if precision is not None and not callable(getattr(precision, "stored_dtype", None)):
        raise RecordError(
            f"expected a Precision, got {precision!r}; write Precision(torch.bfloat16) or BFloat16Precision"
        )
    return precision or Precision(float=None), bool(getattr(precision, "allow_overflow", False))


def recorder_for(path: str | os.PathLike[str], precision: PrecisionRule | None = None) -> FileRecorder:
    """The recorder of the format that the extension of `path` names; of safetensors, where it has none.

    RecordError refuses the names of files of torch.save (`pytorch_model.bin`), and other extensions.
    """
    recorder, text = FileRecorder(precision), check_name(path)
    is_bare = not text.endswith(EXTENSIONS) and not os.path.splitext(text)[1]
    recorder.format = format_of_path(f"{text}{DEFAULT_EXTENSION}" if is_bare else text)
    return recorder


def outline_of(record: Record, precision: PrecisionRule, with_values: bool = True) -> Outline:
    """The record in the types of `precision`; `with_values` refuses tensors that have none, as on the meta device."""
    tensors, tied = record.tensors, names_of_tied(record.aliases) if record.aliases else {}
    kept = kept_tensors(record.values) if record.values else ()
    for name in (*tensors, *record.aliases):
        if not isinstance(name, str) or len(name) > MAX_NAME:
            raise RecordError(f"{name!r:.80}: expected a text of at most {MAX_NAME} characters as a name; rename it")
    entries = {}
    for name in tensors:
        if isinstance(tensors, LazyTensors):
            dtype, shape = tensors.dtype(name), tensors.shape(name)
        else:
            tensor = plain_tensor(name, tensors[name]) if with_values else tensors[name]
            dtype, shape = tensor.dtype, tensor.shape
        stored = dtype if name in kept else stored_dtype_of(precision, tied.get(name, [name]), dtype)
        entries[name] = TensorEntry(name, file_dtype(stored, name), tuple(shape))
    target = getattr(precision, "float", None)
    return Outline(
        entries,
        record.ids,
        record.aliases,
        record.values,
        record.states,
        record.layout,
        record.metadata,
        precision=None if target is None else file_dtype(target, "Precision.float"),
    )


def names_of_tied(aliases: Mapping[str, str]) -> dict[str, list[str]]:
    """Name of each tied tensor -> that name, and its aliases."""
    names: dict[str, list[str]] = {}
    for alias, name in aliases.items():
        names.setdefault(name, [name]).append(alias)
    return names


def copied(record: Record) -> Record:
    """The record with copies of its values in the CPU's memory; those of an open file are left there."""
    outline, tensors = snapshot(outline_of(record, Precision(float=None)), record.tensors, allow_overflow=True)
    return replace(record, tensors=tensors, values=outline.values)


def converted(name: str, tensor: Tensor, dtype: torch.dtype, allow_overflow: bool) -> Tensor:
    """A tensor, or this process's part of one, in another type; PrecisionError where a value does not fit it."""
    if tensor.dtype == dtype:
        return tensor
    converted = in_dtype(tensor, dtype)
    check_kept(name, local(tensor), local(converted), allow_overflow)
    return converted


def with_extension(path: str | os.PathLike[str], extension: str) -> str:
    """The path, with `extension` where the name has none."""
    text = os.fspath(path)
    return text if os.path.splitext(text)[1] else text + extension
