"""Functions that save, load, open and verify a record in one call."""

import os
from functools import partial
from typing import Any, TypeVar, overload

import torch
from torch import nn

from ..errors import ArgumentError, RecordError
from .files.reading import read_outline, verify_outline
from .files.stored_tensors import LazyTensors
from .formats import path_text
from .layout import LayoutOf
from .loading.load_into import load_own
from .loading.load_options import LoadReport
from .nesting import RecordPart
from .precision import PrecisionRule
from .record import Record, given_options, record_of
from .recorder import FileRecorder, Recorder, recorder_for
from .saving.background import OnBusy, SaveHandle
from .state_dict.module_layout import layout_of

R = TypeVar("R", bound=Recorder)


def save(
    source: Any, path: str | os.PathLike[str], precision: PrecisionRule | None = None, recorder: Recorder | None = None
) -> str:
    """Write the record of an object to a file: of an `nn.Module`, its parameters and persistent buffers.

    Args:
        source: a module, an optimizer, a Record, a map of tensors, or anything else that `Record.of` takes.
        path: the file. Its extension says the format: one of `burnlike.record.EXTENSIONS`. A name without an extension
            gets `.safetensors`. Other extensions are refused, and so are names of torch.save's files
            (`pytorch_model.bin`).
        precision: types to store in; None stores each tensor as it is.
        recorder: writes the file, whatever its extension, in a precision of its own.

    Returns:
        The path written. See `FileRecorder.save` for errors.
    """
    recorder = recorder_for(path, precision) if recorder is None else _without(precision, recorder)
    return recorder.save(Record.of(source), path)


def save_async(
    source: Any,
    path: str | os.PathLike[str],
    precision: PrecisionRule | None = None,
    recorder: FileRecorder | None = None,
    on_busy: OnBusy = "wait",
) -> SaveHandle:
    """Write the record of an object in the background, see `save` and `FileRecorder.save_async`.

    It copies the values in the types of the file and returns, and training may go on. A process that ends waits for
    its saves, and so does `wait()` of the handle, which raises what went wrong.
    """
    recorder = recorder_for(path, precision) if recorder is None else _without(precision, recorder)
    return recorder.save_async(Record.of(source), path, on_busy)


def _without(precision: PrecisionRule | None, recorder: R) -> R:
    if precision is not None:
        raise RecordError("expected a precision or a recorder, got both; give the recorder its precision")
    return recorder


@overload
def load(
    target: nn.Module,
    path: str | os.PathLike[str],
    strict: bool = ...,
    device: torch.device | str | None = ...,
    *,
    recorder: Recorder | None = ...,
    layout: Any = ...,
    top_level_key: str | None = ...,
    verify: bool = ...,
    **options: Any,
) -> LoadReport: ...
@overload
def load(
    target: Any,
    path: str | os.PathLike[str],
    *,
    recorder: Recorder | None = ...,
    layout: Any = ...,
    top_level_key: str | None = ...,
    verify: bool = ...,
    **options: Any,
) -> Any: ...
def load(
    target: Any,
    path: str | os.PathLike[str],
    strict: bool = True,
    device: torch.device | str | None = None,
    *,
    recorder: Recorder | None = None,
    layout: Any = None,
    top_level_key: str | None = None,
    verify: bool = False,
    **options: Any,
) -> Any:
    """Load a file into the object whose record it holds, all of it or nothing.

    An `nn.Module` keeps its tensors: the values are converted to their types and devices and written into them, so
    optimizers keep their references, and frozen parameters stay frozen. Tensors on the meta device are made. The module
    gets the record's ids. A lazy parameter gets the values without being initialized. A parameter with a load mapper
    takes the form that its mapper expects; all mapped values are in memory before the first is written.

    Everything else is loaded by its `load_record`, as is a module whose class defines one: optimizers and schedulers of
    burnlike and of torch, a TrainingState, generators, and objects with `load_state_dict`.

    Args:
        target: a module, an optimizer, ...
        path: a file of any format that `open_record` reads, or a directory with a sharded set.
        strict: for a module: whether a missing or unexpected tensor is an error. Another shape or kind always is.
        device: for a module: where tensors on the meta device are made; None is torch's default device.
        recorder: reads the file; None finds the format by its first bytes.
        layout, top_level_key: see `open_record`; without a layout that of the target is taken.
        verify: compare all values with the checksums in the file before anything is changed, which reads the file
            twice; see `burnlike.record.verify`.
        options: for a module `allow_partial`, `allow_unused`, `validate`, `match`, `filter`, `remap`, `remap_ids` and
            `dtype`, see `LoadOptions`; else those of its `load_record`, such as `module`, `report` and `prune_orphans`
            of an optimizer.

    Returns:
        What `load_record` returns; for a module a LoadReport.

    Raises:
        RecordIOError, RecordFormatError: the file can't be read or is damaged.
        RecordMismatchError: the record does not fit; its `report` says why. The target is as it was, as with the rest:
        RecordError: a load mapper raised or gave no tensor, or nothing can be loaded into the target.
        PrecisionError: a value is too large for the module's type.
        ArgumentError: an option is wrong, or both a recorder and a top_level_key are given.
    """
    record = open_for(target, path, recorder, layout, top_level_key)
    if verify:
        _verify(record)
    return load_own(target, record, **given_options(strict, device, options))


def open_for(
    target: Any,
    path: str | os.PathLike[str],
    recorder: Recorder | None = None,
    layout: Any = None,
    top_level_key: str | None = None,
) -> Record:
    """Open the record at `path` to load it into `target`; see `load`.

    A target with a method `open_record(path)` opens it itself: a TrainingState is saved as several files.
    """
    if isinstance(path, Record | RecordPart):
        raise ArgumentError("expected the path of a record, got a record; load it by record.load_into(target)")
    record_layout = _layout_for(target) if layout is None else layout
    if recorder is None:
        path_text(path, "load(object, path)")
        opener: Any = None if isinstance(target, type | nn.Module) else getattr(target, "open_record", None)
        return Record.of(opener(path)) if callable(opener) else open_record(path, record_layout, top_level_key)
    if top_level_key is not None:
        raise ArgumentError("top_level_key is for files of torch.save; expected it or a recorder, got both")
    return recorder.load(path, record_layout)


def _layout_for(target: Any) -> Any:
    """The layout of the records of `target`, or a tuple of those that its files may have, for files without names.

    None where it can't be told.
    """
    if isinstance(target, nn.Module):
        return LayoutOf(partial(layout_of, target))
    names = () if isinstance(target, type) else ("burn_0_21_layout", "record_layout")
    makers = [make for name in names if callable(make := getattr(target, name, None))]
    return LayoutOf(lambda _: tuple(layout for make in makers if (layout := make()) is not None)) if makers else None


def open_record(path: str | os.PathLike[str], layout: Any = None, top_level_key: str | None = None) -> Record:
    """Open a record's file, whose first bytes tell its format; each tensor is read when it is asked for.

    It reads the formats that burnlike writes, and files of `torch.save` (`.pt`, `.pth`, `.bin`) without running
    anything in them: maps of tensors and plain values, nested ones by dotted names, and the weights of whole modules.

    Args:
        path: the file; or the index of a sharded set (`model.safetensors.index.json`), or the directory that it or a
            `model.safetensors` is in; or a directory that `DistributedRecorder` or torch's own checkpoints wrote.
        layout: see `burnlike.record.layout`; for bincode, which carries no names.
        top_level_key: reads only what is under this key of the outermost map, as `model` or `state_dict`, and names it
            without the key; for files of `torch.save` and directories of `torch.distributed.checkpoint`.

    Raises:
        RecordIOError: a file can't be read.
        RecordFormatError: it is damaged, of no known format, not a whole set, or has objects that only code could make.
        ArgumentError: the file has no such key, or is no file of `torch.save`.
    """
    source, outline = read_outline(path, layout, top_level_key)
    return record_of(source, outline)


def verify(source: Record | str | os.PathLike[str]) -> int:
    """Compare the values of all tensors of an opened record or a file (or set) with the checksums saved with them.

    Safetensors files that burnlike writes have one for each tensor, files of `torch.save` one for each storage, gzipped
    files one for all. Others have none. Returns how many tensors were compared; 0 for a record in memory.

    Raises:
        RecordFormatError: a value is not the one that was saved; names the tensor, or the header.
        RecordIOError: reading fails.
    """
    if not isinstance(source, Record):
        return verify_outline(read_outline(source)[1])
    return verify_outline(source.tensors.outline) if isinstance(source.tensors, LazyTensors) else 0


_verify = verify  # `load` has an option of this name
