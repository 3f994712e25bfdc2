"""Saving and loading a module in one call."""

import os

import torch
from torch import nn

from ..errors import RecordError
from .opening import open_record
from .precision import PrecisionRule
from .record import Record
from .recorder import Recorder, recorder_for
from .report import LoadReport


def save(
    module: nn.Module,
    path: str | os.PathLike[str],
    precision: PrecisionRule | None = None,
    recorder: Recorder | None = None,
) -> str:
    """Write the parameters and persistent buffers of any `nn.Module` to a file.

    Args:
        module: the module.
        path: file. Its extension says the format, safetensors where it is none of `burnlike.record.EXTENSIONS`;
            `.safetensors` is appended to a name without an extension.
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
    return recorder.save(Record.from_module(module), path)


def load(
    module: nn.Module,
    path: str | os.PathLike[str],
    strict: bool = True,
    device: torch.device | str | None = None,
    by_id: bool = False,
) -> LoadReport:
    """Load a record's file into any `nn.Module`, all of it or nothing.

    Values are converted to the module's types and devices and written into the tensors that are there, so that
    optimizers keep their references; tensors on the meta device are made. Frozen parameters stay frozen. The module
    takes over the record's ids. Lazy parameters take the values and are never initialized. Where a parameter has a load
    mapper, the record's form is what must fit; all mapped values are in memory before the first is written.

    Args:
        module: the module.
        path: file, of burnlike or any other program that writes safetensors.
        strict: whether a missing or unexpected tensor is an error. Another shape or kind of type always is.
        device: for tensors on the meta device; None is torch's default device.
        by_id: match parameters by their ids, not by their paths: for a module whose layers were moved or renamed since
            it was saved.

    Returns:
        What became of each tensor.

    Raises:
        RecordIOError, RecordFormatError: the file can't be read or is damaged.
        RecordMismatchError: the record does not fit; its `report` says why. The module is as it was.
        RecordError: a load mapper raised or gave no tensor. The module is as it was.
        PrecisionError: a value is too large for the module's type. The module is as it was.
    """
    return open_record(path).load_into(module, strict, device, by_id)
