"""Checkpoints: directories that are there whole or not at all."""

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from .._atomic_file import sync_directory
from ..errors import BurnlikeError, CheckpointError, RecordError
from ..record import Record, SafetensorsRecorder

_PARTIAL = ".partial-"
_REMOVED = ".removed-"
_NAME = re.compile(r"step-(\d+)")


class Checkpoint(NamedTuple):
    """A whole checkpoint: one safetensors file for each of its records."""

    step: int
    path: Path

    def load(self, name: str) -> Record:
        """Read one record, lazily.

        Raises:
            CheckpointError: it is missing, damaged or truncated.
        """
        try:
            return SafetensorsRecorder().load(self.path / f"{name}.safetensors")
        except RecordError as error:
            raise self.damaged(error) from error

    def damaged(self, error: BurnlikeError) -> CheckpointError:
        """The error to raise when `error` came from a record of this checkpoint: it says how to go on."""
        return CheckpointError(
            f"the checkpoint {self.path} can't be used: {error}; remove that directory to resume from the checkpoint "
            "before it"
        )


def write_records(directory: Path, records: Mapping[str, Record]) -> None:
    """Write a file `<name>.safetensors` for each record into a new directory, which is there whole or not at all.

    It is written under a hidden name, synced to the disk, and renamed.

    Raises:
        OSError, RecordError: it can't be written, or exists and is not empty; nothing is left of it.
    """
    partial = directory.with_name(f"{_PARTIAL}{directory.name}")
    try:
        shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
        partial.mkdir(parents=True)
        for name, record in records.items():
            SafetensorsRecorder().save(record, partial / f"{name}.safetensors")
        sync_directory(partial)
        partial.rename(directory)
        sync_directory(directory.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


class Checkpointer:
    """Writes checkpoints `step-00000200` into a directory and keeps the last ones.

    A checkpoint is written into a hidden directory, synced to the disk, and renamed: whatever has the name `step-*` is
    whole, even after SIGKILL or a power cut at any moment.
    """

    def __init__(self, directory: str | os.PathLike[str], keep: int = 2) -> None:
        """Nothing is made before the first save.

        Args:
            directory: where the checkpoints are.
            keep: how many of the last ones stay, >= 1.
        """
        self.directory = Path(directory)
        self.keep = keep

    def all(self) -> list[Checkpoint]:
        """The whole checkpoints, first to last."""
        if not self.directory.is_dir():
            return []
        found = ((_NAME.fullmatch(path.name), path) for path in self.directory.iterdir())
        return sorted(Checkpoint(int(match[1]), path) for match, path in found if match)

    def latest(self) -> Checkpoint | None:
        """The last whole checkpoint, if there is one."""
        return next(reversed(self.all()), None)

    def save(self, step: int, records: Mapping[str, Record]) -> Checkpoint:
        """Write the checkpoint of a step, then remove those that are too old. One that is there already is kept.

        Args:
            step: optimizer steps taken.
            records: the records by name; each becomes a file `<name>.safetensors`.

        Raises:
            CheckpointError: it can't be written; those before it are unharmed.
        """
        checkpoint = Checkpoint(step, self.directory / f"step-{step:08d}")
        if not checkpoint.path.exists():
            try:
                write_records(checkpoint.path, records)
            except (OSError, RecordError) as error:
                raise self._unwritable(checkpoint, error) from error
        for old in self.all()[: -self.keep]:
            self._remove(old.path)
        return checkpoint

    def clean(self) -> None:
        """Remove what a killed process left half written or half removed."""
        if self.directory.is_dir():
            for path in self.directory.iterdir():
                if path.name.startswith((_PARTIAL, _REMOVED)):
                    shutil.rmtree(path, ignore_errors=True)

    def _remove(self, path: Path) -> None:
        hidden = path.with_name(f"{_REMOVED}{path.name}")
        path.rename(hidden)
        shutil.rmtree(hidden, ignore_errors=True)

    def _unwritable(self, checkpoint: Checkpoint, error: OSError | RecordError) -> CheckpointError:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        latest = self.latest()
        kept = f"{latest.path} is whole" if latest else "there is none before it"
        return CheckpointError(
            f"the checkpoint {checkpoint.path} can't be written: {reason}; {kept}. Free some space or mend the place, "
            "then go on with --resume"
        )
