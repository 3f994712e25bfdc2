"""Checkpoints: directories that are written whole or not at all, by one process or several; and which of them stay."""

import hashlib
import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from ..._atomic import AtomicDirectory, remove_abandoned_directories, remove_directory
from ...errors import ArgumentError, BurnlikeError, CheckpointError, RecordError, RecordMismatchError
from ...module.torch_objects.wrappers import is_distributed
from ...record import DistributedRecorder, Record, SafetensorsRecorder, verify
from ...record.distributed.together import Together, copied_parts
from ...record.saving.background import SaveThread
from ..runs.run_dir import checkpoint_name, checkpoint_step
from .mirror import Mirror


class Save(NamedTuple):
    """Write the checkpoint."""


class Delete(NamedTuple):
    """Remove the checkpoint of this number."""

    number: int


CheckpointingAction = Save | Delete


class CheckpointingStrategy(Protocol):
    """Decides at each moment at which a checkpoint could be written; `kept` are the numbers of those that it wants."""

    kept: list[int]

    def checkpointing(self, number: int, values: Mapping[str, float]) -> list[CheckpointingAction]:
        """Actions for the growing number, a step or an epoch, and metrics since the last call, as `valid.loss`."""
        ...


class KeepLastNCheckpoints:
    """Keeps the last ones.

    Example:
        >>> strategy = KeepLastNCheckpoints(2)
        >>> [strategy.checkpointing(number, {}) for number in (1, 2, 3)][-1]
        [Save(), Delete(number=1)]
    """

    def __init__(self, num_keep: int) -> None:
        self.num_keep = num_keep
        self.kept: list[int] = []

    def checkpointing(self, number: int, values: Mapping[str, float]) -> list[CheckpointingAction]:
        kept = [*self.kept, number]
        old, self.kept = kept[: -self.num_keep], kept[-self.num_keep :]
        return [Save(), *map(Delete, old)]


class MetricCheckpointingStrategy:
    """Keeps the one with the best value of a metric, and never one with NaN or the worst infinity; of equal values that
    with the lowest loss of the same split, and else the first.
    """

    def __init__(self, metric: str, direction: Literal["lowest", "highest"] | None = None) -> None:
        """Make a strategy for a metric such as `valid.loss`, for which alone `direction` may be left out."""
        if direction is None:
            if metric.rpartition(".")[2] != "loss":
                raise ArgumentError(
                    f"expected direction='lowest' or 'highest' for {metric}: which of its values are good"
                )
            direction = "lowest"
        self.metric = metric
        self.direction = direction
        self.best: float | None = None
        self.loss: float | None = None
        self.kept: list[int] = []
        self._loss_name = f"{metric.partition('.')[0]}.loss"

    def checkpointing(self, number: int, values: Mapping[str, float]) -> list[CheckpointingAction]:
        if not self.is_better(values):
            return []
        old, self.kept = self.kept, [number]
        self.best, self.loss = values[self.metric], values.get(self._loss_name)
        return [*map(Delete, old), Save()]

    def is_better(self, values: Mapping[str, float]) -> bool:
        """True if the values have the best one of the metric so far."""
        value = values.get(self.metric)
        if value is None or math.isnan(value) or value == (math.inf if self.direction == "lowest" else -math.inf):
            return False
        if value == self.best:
            loss = values.get(self._loss_name)
            return loss is not None and self.loss is not None and loss < self.loss
        return self.best is None or (value < self.best if self.direction == "lowest" else value > self.best)

    def state_dict(self) -> dict[str, Any]:
        return {"kept": list(self.kept), "best": self.best, "loss": self.loss}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.kept, self.best, self.loss = list(state["kept"]), state["best"], state.get("loss")


class ComposedCheckpointingStrategy:
    """Keeps what any of several strategies keeps."""

    def __init__(self, strategies: Sequence[CheckpointingStrategy]) -> None:
        self.strategies = list(strategies)
        self.kept: list[int] = []

    def checkpointing(self, number: int, values: Mapping[str, float]) -> list[CheckpointingAction]:
        actions = [action for strategy in self.strategies for action in strategy.checkpointing(number, values)]
        is_saved = Save() in actions
        wanted = {number for strategy in self.strategies for number in strategy.kept}
        before = [*self.kept, *([number] if is_saved else [])]
        self.kept = [it for it in before if it in wanted]
        return [*([Save()] if is_saved else []), *(Delete(it) for it in before if it not in wanted)]


_NICENESS = 10  # the training goes first where it and the save want one CPU


class Checkpoint(NamedTuple):
    """A whole checkpoint: one safetensors file for each of its records."""

    step: int
    path: Path

    def load(self, name: str) -> Record:
        """Read one record, lazily; its values are compared with their checksums first."""
        try:
            record = self.opened(name)
            verify(record)
            return record
        except RecordError as error:
            raise self.damaged(error) from error

    def opened(self, name: str) -> Record:
        """One record, of one file or of the parts of several processes, which nothing is compared of yet."""
        sharded = self.path / name
        if sharded.is_dir():
            return DistributedRecorder().load(sharded)
        return SafetensorsRecorder().load(self.path / f"{name}.safetensors")

    def part(self, name: str) -> Record:
        """One record, of one file or of the parts of several processes; see `load`."""
        return self.opened(name) if (self.path / name).is_dir() else self.load(name)

    def records(self) -> dict[str, Record]:
        """All records, by name; see `load`."""
        names = [path.stem for path in sorted(self.path.glob("*.safetensors"))]
        return {name: self.part(name) for name in [*names, *(it.name for it in self.path.iterdir() if it.is_dir())]}

    def damaged(self, error: BurnlikeError) -> CheckpointError:
        """The error to raise when `error` came from a record of this checkpoint: it says how to go on."""
        remedy = "remove that directory to resume from the checkpoint before it"
        if isinstance(error, RecordMismatchError):  # so would those before it, of the same model
            remedy = (
                "its files may be whole, and the model another one, as data with a new class or column make it: put"
                " back the data to resume the run, or leave out --resume to start a new one"
            )
        return CheckpointError(f"the checkpoint {self.path} can't be used: {error}; {remedy}")


@contextmanager
def whole_checkpoint(directory: Path) -> Iterator[Path]:
    """A hidden directory to write into, which becomes the checkpoint `directory` when the `with` block ends well.

    A CheckpointError says that another process has written it meanwhile; after any error nothing is left of it.
    """
    with AtomicDirectory(directory) as partial:
        yield partial.path
        try:
            partial.commit()
        except FileExistsError as error:
            raise CheckpointError(
                f"{directory} was written by another process meanwhile, which is whole; what was written here is"
                " removed. Let one process (rank 0) write, or give each a directory of its own"
            ) from error


def write_records(directory: Path, records: Mapping[str, Record]) -> None:
    """Write a file `<name>.safetensors` for each record into a new directory, which is there whole or not at all."""
    with whole_checkpoint(directory) as partial:
        for name, record in records.items():
            SafetensorsRecorder().save(record, partial / f"{name}.safetensors")


def is_divided(record: Record) -> bool:
    """True if each process has a part of a tensor of the record."""
    return any(map(is_distributed, record.tensors.values()))


class Checkpointer:
    """Writes checkpoints `step-00000200` into a directory and keeps the last ones.

    A checkpoint is written into a hidden directory, synced to the disk, and renamed: whatever has the name `step-*` is
    whole, even after SIGKILL or a power cut at any moment.

    A directory belongs to one run. A run that goes on asks for `latest()` (or `all()`) before it saves: what is there
    then counts as its own. Beside checkpoints of another run nothing is written, and none of them is removed.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        keep: int = 2,
        write: Callable[[Path, Mapping[str, Record]], None] = write_records,
    ) -> None:
        """Nothing is made before the first save; `keep` >= 1 of the last ones stay.

        `write` writes records to a directory that is not there yet, whole or not at all.
        """
        self.write = write
        self.directory = Path(directory)
        self.keep = keep
        self._own: dict[int, bool] = {}  # steps of this run's checkpoints in order -> whether this object wrote it
        self._saving: SaveThread | None = None
        self.mirror: Mirror | None = None

    def all(self) -> list[Checkpoint]:
        """The whole checkpoints, first to last; from here on they count as this run's own."""
        checkpoints = self._found()
        for checkpoint in checkpoints:
            # Those that this object wrote stay marked so.
            self._own.setdefault(checkpoint.step, False)
        return checkpoints

    def latest(self) -> Checkpoint | None:
        """The last whole checkpoint, if there is one; see `all`."""
        return next(reversed(self.all()), None)

    def check(self, step: int) -> None:
        """Refuse a directory with a checkpoint of another run, or of a later step than `step`."""
        self._checked(step, may_redo=False)

    def _checked(self, step: int, *, may_redo: bool) -> list[Checkpoint]:
        """The checkpoints that are there; of later steps only those of this object, and only with `may_redo`."""
        present = self._found()
        others = [it for it in present if it.step not in self._own]
        later = [it for it in present if it.step > step and not (may_redo and self._own[it.step])] if not others else []
        if wrong := others or later:
            whose = "another run" if others else f"a later step than {step}, where this run is"
            raise CheckpointError(
                f"{self.directory} holds a checkpoint of {whose}: {wrong[-1].path.name}; nothing was changed. Load the"
                " last one to go on from it (`latest()`; `burnlike train --resume`), remove it to go on from one before"
                " it, or choose another directory for a new run"
            )
        return present

    def save(
        self, step: int, records: Mapping[str, Record], *, kept: Collection[int] | None = None, background: bool = False
    ) -> Checkpoint:
        """Write the checkpoint of a step, then remove this run's oldest ones. One that is there already is kept.

        A save that is still being written is waited for first.

        Args:
            records: by name; each becomes a file `<name>.safetensors`.
            kept: steps of the checkpoints that stay, this one among them; None: the last `keep` ones.
            background: copy the values and return; a thread writes them. `wait` tells what came of it.

        Raises:
            CheckpointError: it can't be written, processes have parts of it, there is a checkpoint of another run, or
                one of a later step that this run did not write; what is there is unharmed. Or the save before it failed
                in the background.
        """
        if self.write is write_records and (name := next((name for name, it in records.items() if is_divided(it)), "")):
            raise CheckpointError(
                f"each process has a part of '{name}', and a Checkpointer writes what one process has: let all"
                f" processes call TrainingState(...).save('{self.of_step(step).path}'), and load() to go on from it, or"
                " let a Learner train, whose checkpoints are written together"
            )
        # One save at a time: two would have two copies of the state in memory, and might end in another order.
        self.wait()
        present = self._checked(step, may_redo=True)
        checkpoint = self.of_step(step)
        if checkpoint in present:
            self._remove_others(kept)
            return checkpoint
        if not background:
            self._write(checkpoint, records, kept)
            return checkpoint
        try:
            copies = {name: copied_parts(record) for name, record in records.items()}
        except RecordError as error:
            raise self._unwritable(checkpoint, error) from error

        def write() -> str:
            self._write(checkpoint, copies, kept)
            return os.fspath(checkpoint.path)

        self._saving = SaveThread(write, os.fspath(checkpoint.path), self, _NICENESS)
        self._saving.start()
        return checkpoint

    def wait(self) -> None:
        """Wait for the save that is being written in the background; a CheckpointError if it could not be written."""
        if self._saving is None:
            return
        self._saving.has_ended(None)
        error, self._saving = self._saving.error, None
        if error is not None:
            raise error

    def notes(self, *, wait: bool = False) -> list[str]:
        """News of the mirror for the user since the last call; `wait` until it has all checkpoints."""
        return [] if self.mirror is None else self.mirror.notes(wait=wait)

    def mirror_result(self) -> list[str]:
        """Let the mirror copy the run's result; returns its news for the user."""
        if self.mirror is not None:
            self.mirror.update(self._found, has_result=True)
        return self.notes(wait=True)

    @property
    def is_saving(self) -> bool:
        return self._saving is not None and not self._saving.has_ended()

    @property
    def has_failed(self) -> bool:
        """True if the save in the background has come to an error, which `wait` raises."""
        return self._saving is not None and self._saving.has_ended() and self._saving.error is not None

    def keep_only(self, kept: Collection[int]) -> None:
        """Remove this run's checkpoints of other steps: those that a killed process was about to remove."""
        self.all()
        self._remove_others(kept)

    def _write(self, checkpoint: Checkpoint, records: Mapping[str, Record], kept: Collection[int] | None) -> None:
        try:
            self.write(checkpoint.path, records)
            self._own.pop(checkpoint.step, None)  # the dict's order is that of the saves
            self._own[checkpoint.step] = True
            self._remove_others(kept)
        except (OSError, RecordError) as error:
            raise self._unwritable(checkpoint, error) from error
        if self.mirror is not None:
            self.mirror.update(self._found)

    def _remove_others(self, kept: Collection[int] | None) -> None:
        present = [step for step in self._own if step in {it.step for it in self._found()}]  # some may be gone
        stays = present[-self.keep :] if kept is None else kept
        for step in [it for it in present if it not in stays]:
            remove_directory(self.of_step(step).path)
            del self._own[step]

    def clean(self) -> None:
        """Remove what killed processes left half written or half removed."""
        remove_abandoned_directories(self.directory)

    def of_step(self, step: int) -> Checkpoint:
        """The checkpoint of a step, which may not be there."""
        return Checkpoint(step, self.directory / checkpoint_name(step))

    def _found(self) -> list[Checkpoint]:
        if not self.directory.is_dir():
            return []
        steps = ((checkpoint_step(path.name), path) for path in self.directory.iterdir())
        return sorted(Checkpoint(step, path) for step, path in steps if step is not None)

    def _unwritable(self, checkpoint: Checkpoint, error: OSError | RecordError) -> CheckpointError:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        latest = next(reversed(self._found()), None)
        kept = f"{latest.path} is whole" if latest else "there is none before it"
        return CheckpointError(
            f"the checkpoint {checkpoint.path} can't be written: {reason}; {kept}. Free some space or mend the place, "
            "then go on with --resume"
        )


class FollowingCheckpointer(Checkpointer):
    """The checkpointer of a process that leaves all to another one, but for its parts of sharded records."""

    def _checked(self, step: int, *, may_redo: bool) -> list[Checkpoint]:
        return []

    def _remove_others(self, kept: Collection[int] | None) -> None: ...

    def keep_only(self, kept: Collection[int]) -> None: ...

    def clean(self) -> None: ...


class SilentCheckpointer(FollowingCheckpointer):
    """The checkpointer of a process that has nothing which the one that writes lacks."""

    def save(
        self, step: int, records: Mapping[str, Record], *, kept: Collection[int] | None = None, background: bool = False
    ) -> Checkpoint:
        return self.of_step(step)


def write_together(
    directory: Path, records: Mapping[str, Record], *, group: Any = None, elsewhere: Collection[int] = ()
) -> None:
    """Write records, some of them divided, all processes together: a folder for each divided one, a file for others.

    Rank 0 makes the directory and writes the files; for `group` and `elsewhere` see `DistributedRecorder`.
    """
    together = Together(f"{directory}: not saved", group)
    together.expect_one_name(directory)
    recorder = DistributedRecorder(group=group, elsewhere=elsewhere, stages=True)
    divided = {name: is_divided(record) for name, record in records.items()}
    # By digests, as names of a large model would be megabytes to send.
    names = {name: hashlib.sha256("\n".join(sorted(it.tensors)).encode()).hexdigest() for name, it in records.items()}
    everyone = together.gathered((divided, names))
    with ExitStack() as stack:
        hidden: Path | None = None
        with together:
            if together.rank == 0:
                hidden = stack.enter_context(whole_checkpoint(directory))
        partial = together.gathered(hidden)[0] or directory
        for name, record in records.items():
            if any(parts[name] or theirs[name] != everyone[0][1][name] for parts, theirs in everyone):
                recorder.save(record, partial / name)
            else:
                with together:
                    if together.rank == 0:
                        SafetensorsRecorder().save(record, partial / f"{name}.safetensors")
        with together:
            stack.close()
