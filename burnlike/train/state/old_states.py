"""Reads the training records of earlier versions."""

from dataclasses import replace
from typing import Any

from ...errors import RecordFormatError, RecordMismatchError
from ...record import Record

VERSION = 2
"""Of the record `training`. Version 1 had no number, and was one of a Learner alone."""


def upgraded(record: Record) -> Record:
    """The record `training` in today's form.

    Raises:
        RecordMismatchError: it is none.
        RecordFormatError: a later version wrote it.
    """
    version = record.values.get("version", 1)
    if version == 1:
        return _from_version_1(record)
    if version != VERSION:
        raise RecordFormatError(
            f"{record.source}: expected version {VERSION} or before of a training's state, got {version!r}; a newer"
            " burnlike wrote it: update"
        )
    if not isinstance(record.values.get("parts"), dict):
        raise RecordMismatchError(f"{record.source} is no record of a training: it has no parts")
    return record


def _from_version_1(record: Record) -> Record:
    values, tensors = record.values, record.tensors
    try:
        random: dict[str, Any] = {
            "python": {
                "version": values["random"]["version"],
                "words": _tensor(record, "random.python"),
                "gauss": values["random"]["gauss"],
            },
            "torch_cpu": _tensor(record, "random.torch_cpu"),
        }
        if "random.torch_cuda" in tensors:
            random["torch_cuda"] = [_tensor(record, "random.torch_cuda")]
        parts = {
            "counters": {"step": values["step"], "last": values["last"]},
            "loader": values["loader"],
            "lr_scheduler": values["lr_scheduler"],
            "window": {"means": _tensor(record, "window.means"), "sizes": _tensor(record, "window.sizes")},
        }
    except KeyError as error:
        raise RecordMismatchError(f"{record.source} is no record of a training: it has no {error}") from error
    return replace(record, values={"version": VERSION, "parts": {**parts, "random": random}})


def _tensor(record: Record, name: str) -> dict[str, str]:
    if name not in record.tensors:
        raise KeyError(name)
    return {"$tensor": name}
