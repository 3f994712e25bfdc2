"""Checkpoints of several processes: one writes what all have alike, and each its own parts of what is sharded."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from ...module.torch_objects.wrappers import is_distributed
from ...record import DistributedRecorder, Record, SafetensorsRecorder
from .checkpointer import Checkpoint, Checkpointer, whole_checkpoint


class FollowingCheckpointer(Checkpointer):
    """The checkpointer of a process that leaves writing to another one, but for its parts of sharded records."""

    def save(
        self,
        step: int,
        records: Mapping[str, Record],
        *,
        kept: Collection[int] | None = None,
        background: bool = False,
    ) -> Checkpoint:
        checkpoint = Checkpoint(step, self._path(step))
        self.write(checkpoint.path, records)
        return checkpoint

    def check(self, step: int) -> None:
        """The other process checks."""

    def keep_only(self, kept: Collection[int]) -> None:
        """The other process removes."""

    def clean(self) -> None:
        """The other process removes."""


def write_sharded(
    directory: Path, records: Mapping[str, Record], *, is_main: bool, broadcast: Callable[[Any], Any]
) -> None:
    """Write records of which some are sharded, all processes together: a folder for each of those, a file for others.

    Args:
        is_main: whether this process makes the directory and writes the files.
        broadcast: gives all processes the value of the main one, and waits for it.

    Raises:
        RecordError, OSError: it can't be written; nothing is left of it.
    """
    if is_main:
        with whole_checkpoint(directory) as partial:
            broadcast(str(partial))
            _write_parts(partial, records, is_main)
    else:
        _write_parts(Path(broadcast(None)), records, is_main)
    broadcast(None)


def _write_parts(partial: Path, records: Mapping[str, Record], is_main: bool) -> None:
    for name, record in records.items():
        if any(is_distributed(it) for it in record.tensors.values()):
            DistributedRecorder().save(record, partial / name)
        elif is_main:
            SafetensorsRecorder().save(record, partial / f"{name}.safetensors")
