"""Saving and loading in one call."""

import os
from typing import Any

import torch
from torch import nn

from ..errors import RecordError
from .derived.module_layout import deferred_layout
from .loading.report import LoadReport
from .opening import open_record
from .precision import PrecisionRule
from .record import Record
from .recorder import FileRecorder, Recorder, recorder_for
from .saving.background import OnBusy, SaveHandle


def save(
    source: Any,
    path: str | os.PathLike[str],
    precision: PrecisionRule | None = None,
    recorder: Recorder | None = None,
) -> str:
    """Write the record of anything to a file: of an `nn.Module`, its parameters and persistent buffers.

    Args:
        source: a module, a Record, or whatever else `Record.of` takes: an optimizer, a dataclass, a map of tensors.
        path: file. Its extension says the format, safetensors where it is none of `burnlike.record.EXTENSIONS`;
            `.safetensors` is appended to a name without an extension. Names of torch.save's files (`.pt`, `.pth`,
            `.ckpt`, `pytorch_model.bin`, ...) are refused.
        precision: types to store in; None stores each tensor as it is.
        recorder: writes it, whatever the extension.

    Returns:
        The path written.

    Raises:
        RecordError: see `FileRecorder.save`; or both a recorder and a precision are given.
    """
    if recorder is None:
        recorder = recorder_for(path, precision)
    elif precision is not None:
        raise RecordError("expected a precision or a recorder, got both; give the recorder its precision")
    return recorder.save(Record.of(source), path)


def save_async(
    source: Any,
    path: str | os.PathLike[str],
    precision: PrecisionRule | None = None,
    recorder: FileRecorder | None = None,
    on_busy: OnBusy = "wait",
) -> SaveHandle:
    """Write the record of anything in the background.

    Once this returns, training may go on. It takes memory for a copy of all values in the types of the file, so as many
    bytes as that has, until the file is written. A process that ends waits for the file.

    Args:
        source: see `save`.
        path: see `save`.
        precision: see `save`.
        recorder: writes it, whatever the extension.
        on_busy: whether to "wait" for a save to this path, or of this recorder, that still goes on, or to "refuse".

    Returns:
        What to wait for and to learn of errors by.

    Raises:
        SavePendingError: another save goes on, and `on_busy` is "refuse".
        RecordError: see `FileRecorder.save_async`; or both a recorder and a precision are given.
    """
    if recorder is None:
        recorder = recorder_for(path, precision)
    elif precision is not None:
        raise RecordError("expected a precision or a recorder, got both; give the recorder its precision")
    return recorder.save_async(Record.of(source), path, on_busy)


def load(
    module: nn.Module,
    path: str | os.PathLike[str],
    strict: bool = True,
    device: torch.device | str | None = None,
    *,
    layout: Any = None,
    top_level_key: str | None = None,
    **options: Any,
) -> LoadReport:
    """Load a record's file into any `nn.Module`, all of it or nothing.

    Values are converted to the module's types and devices and written into the tensors that are there, so that
    optimizers keep their references; tensors on the meta device are made. Frozen parameters stay frozen. The module
    takes over the record's ids. Lazy parameters take the values and are never initialized. Where a parameter has a load
    mapper, the record's form is what must fit; all mapped values are in memory before the first is written.

    Args:
        module: the module.
        path: file of any format that `open_record` reads, whoever wrote it; or a directory with a sharded set.
        strict: whether a missing or unexpected tensor is an error. Another shape or kind of type always is.
        device: for tensors on the meta device; None is torch's default device.
        layout, top_level_key: see `open_record`; without a layout that of the module is taken.
        options: `allow_partial`, `allow_unused`, `validate`, `match`, `filter`, `remap`, `remap_ids` and `dtype`; see
            `LoadOptions`.

    Returns:
        What became of each tensor.

    Raises:
        RecordIOError, RecordFormatError: the file can't be read or is damaged.
        RecordMismatchError: the record does not fit; its `report` says why. The module is as it was.
        RecordError: a load mapper raised or gave no tensor. The module is as it was.
        PrecisionError: a value is too large for the module's type. The module is as it was.
        ArgumentError: there is no such option, or it has a value that it can't have.
    """
    known = deferred_layout(module) if layout is None else layout
    return open_record(path, known, top_level_key).load_into(module, strict, device, **options)
