"""Writes records as directories of `torch.distributed.checkpoint`, for programs that load those.

The planner and the writer are torch's; `.metadata` is a pickle, as torch defines it. Reading, here, runs nothing.
"""

import os
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..._atomic import AtomicDirectory
from ...errors import BurnlikeError, RecordIOError
from .. import metadata
from ..files.reading import read_outline
from ..precision import PrecisionRule, torch_dtype
from ..record import Record, record_of
from ..recorder import Recorder, checked_precision, converted, outline_of, record_to_save
from ..torch_files.dcp import OWN_TEXTS


class DcpRecorder(Recorder):
    """Writes records as directories that `torch.distributed.checkpoint.load` reads, in a precision.

    It is called by one process and holds one tensor at a time. Each tensor and each plain value is an entry of its
    dotted name; tied tensors are entries of each of their names. Ids and the like are in the entry `burnlike`.
    """

    def __init__(self, precision: PrecisionRule | None = None) -> None:
        self.precision, self._allow_overflow = checked_precision(precision)

    def save(self, record: Record, path: str | os.PathLike[str]) -> str:
        """Write `record` to the directory `path`, which must not exist; it is there whole or not at all.

        See `FileRecorder.save` for errors.
        """
        record, target = record_to_save(record), Path(path)
        if target.exists():
            raise RecordIOError(f"{target} exists; choose another name or remove it first")
        outline = outline_of(record, self.precision)
        forms = {
            name: torch.empty(it.shape, dtype=torch_dtype(it.dtype, name, record.source), device="meta")
            for name, it in outline.entries.items()
        }
        content: dict[str, Any] = {**forms, **{alias: forms[name] for alias, name in record.aliases.items()}}
        content |= {name: value for name, value in _flat(record.values) if name not in content}
        if texts := metadata.own_texts(outline):
            content[OWN_TEXTS] = texts
        try:
            with AtomicDirectory(target) as partial:
                _write(partial.path, content, lambda name: self._values(name, record, forms))
                partial.commit()
        except (OSError, RuntimeError) as error:  # the second of torch's own writer
            if isinstance(error, BurnlikeError):
                raise
            reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
            raise RecordIOError(
                f"{target}: can't be written: {reason}; is the disk full? free some space, or choose another place"
            ) from error
        return os.fspath(path)

    def load(self, path: str | os.PathLike[str], layout: Any = None) -> Record:
        """The record in a directory of `torch.distributed.checkpoint`; see `burnlike.record.open_record`."""
        return record_of(*read_outline(path))

    def _values(self, name: str, record: Record, forms: dict[str, Tensor]) -> Tensor:
        name = record.aliases.get(name, name)
        return converted(name, record.tensors[name].detach(), forms[name].dtype, self._allow_overflow).contiguous()


def _flat(values: Any, prefix: str = "") -> Any:
    """The plain values by dotted names; lists and empty maps are values."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _write(directory: Path, content: dict[str, Any], values_of: Any) -> None:
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
    from torch.distributed.checkpoint.filesystem import FileSystemWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    class Planner(DefaultSavePlanner):
        """Plans with forms alone, and asks for the values of one tensor after the other."""

        def lookup_object(self, index: Any) -> Any:
            looked_up = super().lookup_object(index)
            return values_of(index.fqn) if isinstance(looked_up, Tensor) else looked_up

    writer = FileSystemWriter(str(directory), sync_files=False)
    planner = Planner(flatten_state_dict=False)
    try:
        with warnings.catch_warnings():  # torch tells each time that there is only one process
            warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
            save(content, storage_writer=writer, planner=planner, no_dist=True)
    except CheckpointException as error:  # no Exception; it has those of the writer inside
        reason = next((it[0] for it in error.failures.values()), error)
        if isinstance(reason, Exception):
            raise reason from error
        raise
