"""Checkpoints: directories that are written whole or not at all."""

import contextlib
import errno
import fcntl
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ..._atomic_file import remove_unless_held, sync_directory
from ...errors import BurnlikeError, CheckpointError, RecordError
from ...record import Record, SafetensorsRecorder, verify

_HIDDEN = re.compile(r"\.(?:partial|removed)-(.+?)(?:-[0-9a-f]{12})?", re.DOTALL)
_NAME = re.compile(r"step-(\d+)")


class Checkpoint(NamedTuple):
    """A whole checkpoint: one safetensors file for each of its records."""

    step: int
    path: Path

    def load(self, name: str) -> Record:
        """Read one record, lazily; its values are compared with their checksums first.

        Raises:
            CheckpointError: it is missing, damaged or truncated.
        """
        try:
            record = SafetensorsRecorder().load(self.path / f"{name}.safetensors")
            verify(record)
            return record
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

    Raises:
        CheckpointError: another process has written it meanwhile.
        OSError, RecordError: it can't be written; nothing is left of it.
    """
    with whole_directory(directory) as partial:
        for name, record in records.items():
            SafetensorsRecorder().save(record, partial / f"{name}.safetensors")


class Checkpointer:
    """Writes checkpoints `step-00000200` into a directory and keeps the last ones.

    A checkpoint is written into a hidden directory, synced to the disk, and renamed: whatever has the name `step-*` is
    whole, even after SIGKILL or a power cut at any moment.

    A directory belongs to one run. A run that goes on asks for `latest()` (or `all()`) before it saves: what is there
    then counts as its own. Beside checkpoints of another run nothing is written, and none of them is removed.
    """

    def __init__(self, directory: str | os.PathLike[str], keep: int = 2) -> None:
        """Nothing is made before the first save.

        Args:
            directory: where the checkpoints are.
            keep: how many of the last ones stay, >= 1.
        """
        self.directory = Path(directory)
        self.keep = keep
        self._own: dict[int, bool] = {}  # steps of this run's checkpoints in order -> whether this object wrote it

    def all(self) -> list[Checkpoint]:
        """The whole checkpoints, first to last; from here on they are taken for those of this run."""
        found = self._found()
        for checkpoint in found:
            self._own.setdefault(checkpoint.step, False)
        return found

    def latest(self) -> Checkpoint | None:
        """The last whole checkpoint, if there is one; see `all`."""
        return next(reversed(self.all()), None)

    def check(self, step: int) -> None:
        """Whether a training that has taken `step` steps may write its checkpoints here; changes nothing.

        Raises:
            CheckpointError: there is one of another run, or one of a later step.
        """
        found = self._found()
        self._refuse([it for it in found if it.step not in self._own], "another run")
        self._refuse([it for it in found if it.step > step], f"a later step than {step}, where this run is")

    def _refuse(self, found: list[Checkpoint], whose: str) -> None:
        if found:
            raise CheckpointError(
                f"{self.directory} holds a checkpoint of {whose}: {found[-1].path.name}; nothing was changed. Load the"
                " last one to go on from it (`latest()`; `burnlike train --resume`), remove it to go on from one before"
                " it, or choose another directory for a new run"
            )

    def save(self, step: int, records: Mapping[str, Record]) -> Checkpoint:
        """Write the checkpoint of a step, then remove this run's oldest ones. One that is there already is kept.

        Args:
            step: optimizer steps taken.
            records: the records by name; each becomes a file `<name>.safetensors`.

        Raises:
            CheckpointError: it can't be written, or there is a checkpoint of another run, or one of a later step that
                this run did not write; what is there is unharmed.
        """
        found = self._found()
        self._refuse([it for it in found if it.step not in self._own], "another run")
        later = [it for it in found if it.step > step and not self._own[it.step]]
        self._refuse(later, f"a later step than {step}, where this run is")
        checkpoint = Checkpoint(step, self._path(step))
        if checkpoint not in found:
            try:
                write_records(checkpoint.path, records)
            except (OSError, RecordError) as error:
                raise self._unwritable(checkpoint, error) from error
            self._own.pop(step, None)
            self._own[step] = True
        present = {it.step for it in self._found()}  # the user may have removed some
        for old in [it for it in self._own if it in present][: -self.keep]:
            remove(self._path(old))
            del self._own[old]
        return checkpoint

    def clean(self) -> None:
        """Remove what killed processes left half written or half removed."""
        remove_abandoned(self.directory)

    def _path(self, step: int) -> Path:
        return self.directory / f"step-{step:08d}"

    def _found(self) -> list[Checkpoint]:
        if not self.directory.is_dir():
            return []
        found = ((_NAME.fullmatch(path.name), path) for path in self.directory.iterdir())
        return sorted(Checkpoint(int(match[1]), path) for match, path in found if match)

    def _unwritable(self, checkpoint: Checkpoint, error: OSError | RecordError) -> CheckpointError:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        latest = next(reversed(self._found()), None)
        kept = f"{latest.path} is whole" if latest else "there is none before it"
        return CheckpointError(
            f"the checkpoint {checkpoint.path} can't be written: {reason}; {kept}. Free some space or mend the place, "
            "then go on with --resume"
        )


@contextmanager
def whole_directory(directory: Path) -> Iterator[Path]:
    """A new hidden directory to write into, which gets the name `directory` when the `with` block ends well.

    No two writers share one: its name is drawn, and it is locked while this process writes, by which it is told from
    what a killed process left. Of that what was meant for the same name is removed.

    Raises:
        CheckpointError: another process has written `directory` meanwhile.
        OSError: it can't be written; nothing is left of it.
    """
    remove_abandoned(directory.parent, directory.name)
    partial, lock = _made(directory)
    try:
        yield partial
        sync_directory(partial)
        partial.rename(directory)
        sync_directory(directory.parent)
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        if isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise CheckpointError(
                f"{directory} was written by another process meanwhile, which is whole; what was written here is"
                " removed. Let one process (rank 0) write, or give each a directory of its own"
            ) from error
        raise
    finally:
        os.close(lock)


def remove(directory: Path) -> None:
    """Remove a directory that another process may be removing too; its name goes first, so it is never seen half."""
    hidden = directory.with_name(f".removed-{directory.name}-{os.urandom(6).hex()}")
    with contextlib.suppress(FileNotFoundError):
        directory.rename(hidden)
        shutil.rmtree(hidden, ignore_errors=True)


def remove_abandoned(parent: Path, name: str | None = None) -> None:
    """Remove what killed processes left half written or half removed in `parent`.

    Args:
        name: only what was meant to be called so; None for all.
    """
    for path in parent.iterdir() if parent.is_dir() else ():
        found = _HIDDEN.fullmatch(path.name)
        if found and name in (None, found[1]):
            remove_unless_held(path, lambda it: shutil.rmtree(it, ignore_errors=True))


def _made(directory: Path) -> tuple[Path, int]:
    """A new hidden directory and the descriptor that locks it."""
    while True:
        partial = directory.with_name(f".partial-{directory.name}-{os.urandom(6).hex()}")
        partial.mkdir(parents=True)
        lock = os.open(partial, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(lock, fcntl.LOCK_SH)
        if partial.exists():  # no other process took it for abandoned before it was locked
            return partial, lock
        os.close(lock)
