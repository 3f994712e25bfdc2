"""The directory of a run: its name, lock and files; and `data.json` and `data/`, by which its model needs no data.

Also the places of the weights that `init_from` names: a record, a checkpoint, a run (of Burn's too), or a directory of
transformers. Imports no torch.
"""

import contextlib
import errno
import fcntl
import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self

from ..._atomic import AtomicDirectory, copy_files, make_directories, replace_file, sync_directory
from ..._regular_file import check_links, read_regular, writable_regular
from ...errors import CheckpointError, RecordIOError, RunDirError
from ...models.by_path.directory import adapters_in, weights_of, weights_problem

LOCK_NAME = "run.lock"
CONFIG_NAME = "config.yaml"
_OF_OTHERS = ("wandb",)
"""Folders of other programs, which keep links of their own there; burnlike follows none of them."""
DATA_NAME, DATA_FOLDER = "data.json", "data"
_MOST_DATA_BYTES = 64_000_000
_WORKERS_END_S = 5.0


class RunDir:
    """A run's directory, locked by this process until `close`; `run.lock` marks it as a run.

    Attributes:
        config: the file of the resolved config; `metrics` that of the metrics, `model` that of the final record.
        adapter: the directory of the final adapters, of a model that has some.
        is_new: whether the run begins with it.
        checkpoints: the directory of the checkpoints.
    """

    def __init__(self, path: Path, lock: IO[str], *, is_new: bool = False) -> None:
        self.path, self._lock, self.is_new = path, lock, is_new
        self.config, self.metrics = path / CONFIG_NAME, path / "metrics.jsonl"
        self.checkpoints, self.model = path / "checkpoints", path / "model.safetensors"
        self.adapter = path / "adapter"

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> "RunDir":
        """Make the directory of a new run; a RunDirError if it can't be made or is there already, and not empty."""
        path = Path(path)
        try:
            make_directories(path)
            occupied = any(path.iterdir())
        except OSError as error:
            raise RunDirError(f"the run directory {path} can't be made: {error.strerror}; choose another") from error
        if not occupied:
            return cls._locked(path, is_new=True)
        if (path / LOCK_NAME).exists():
            raise RunDirError(
                f"{path} already holds a run; resume it with --resume {path}, or choose another directory"
            )
        raise RunDirError(f"{path} holds other files; choose a new directory for the run")

    @classmethod
    def follow(cls, path: str | os.PathLike[str]) -> "RunDir":
        """The run that another process of the same job has locked; this one writes nothing there."""
        return cls(Path(path), open(os.devnull, encoding="utf-8"))  # a file to close in place of the lock

    @classmethod
    def create_next(cls, root: str | os.PathLike[str], name: str) -> "RunDir":
        """Make `root/name`, or `root/name-2` and so on, numbered after the last run there is."""
        return cls._locked(next_directory(Path(root), name), is_new=True)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, may_lack: bool = False) -> "RunDir":
        """Take up the run at `path`: CheckpointError if there is none, RunDirError if another process works on it.

        With `may_lack` it is made if it is not there, for a run whose files are elsewhere.
        """
        path = Path(path)
        if may_lack:
            with contextlib.suppress(OSError):  # the lock tells it
                make_directories(path)
        if not path.is_dir():
            raise CheckpointError(f"there is no run at {path}; leave out --resume to start one, or check the path")
        if any(path.iterdir()) and not (path / LOCK_NAME).exists():
            raise CheckpointError(f"{path} holds no run (it has no {LOCK_NAME}); check the path")
        refuse_links(path)
        return cls._locked(path)

    @classmethod
    def open_newest(cls, root: str | os.PathLike[str], name: str) -> "RunDir":
        """Take up the last run of this name, as `open` does."""
        return cls.open(newest_directory(Path(root), name))

    @classmethod
    def _locked(cls, path: Path, *, is_new: bool = False) -> "RunDir":
        try:
            lock = writable_regular(path / LOCK_NAME)
        except OSError as error:
            raise RunDirError(f"{path / LOCK_NAME} can't be opened: {error.strerror}; check the permissions") from error
        try:
            _take(lock)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                lock.close()
                raise RunDirError(f"{path / LOCK_NAME} can't be locked: {error.strerror}") from error
            lock.seek(0)
            owner = lock.read().strip() or "unknown"
            lock.close()
            raise RunDirError(
                f"another process (id {owner}) is working on {path}; wait for it, stop it, or choose another directory"
            ) from error
        # Written after the lock is taken: before, it would be another process's number that is lost.
        lock.seek(0)
        lock.truncate()
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        return cls(path, lock, is_new=is_new)

    def clean(self) -> None:
        """Remove files that a killed process left half written under their temporary names."""
        for file in (self.config, self.metrics, self.model):
            for leftover in self.path.glob(f".{file.name}.*"):
                leftover.unlink(missing_ok=True)

    def close(self) -> None:
        """Give up the lock: the run counts as ended. Leaving a `with` does it, too."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _take(lock: IO[str]) -> None:
    # A killed run's workers end within moments of it, and keep the lock until then: flock is of the open file, which
    # they have inherited.
    ends = time.monotonic() + _WORKERS_END_S
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > ends or _owner_is_alive(lock):
                raise
            time.sleep(0.01)


def _owner_is_alive(lock: IO[str]) -> bool:
    lock.seek(0)
    try:
        os.kill(int(lock.read()), 0)
    except (ProcessLookupError, ValueError, OverflowError):  # it has ended, or has not written its number yet
        return False
    except PermissionError:
        pass
    return True


def open_or_create(path: str | os.PathLike[str]) -> RunDir:
    """Take up the run at `path`, or begin one where there is none."""
    return RunDir.open(path) if (Path(path) / LOCK_NAME).exists() else RunDir.create(path)


def next_directory(root: Path, name: str) -> Path:
    """Make `root/name`, or `root/name-2` and so on, numbered after the last one there is."""
    path = root
    number = max((number for number, _ in _runs(root, name)), default=0) + 1
    try:
        make_directories(root)
        while True:
            path = root / (name if number == 1 else f"{name}-{number}")
            with contextlib.suppress(FileExistsError):  # another process was faster, or a file has this name
                path.mkdir()
                sync_directory(root)
                return path
            number += 1
    except OSError as error:
        remedy = "choose a place for it with --run-dir"
        raise RunDirError(f"the run directory {path} can't be made: {error.strerror}; {remedy}") from error


def newest_directory(root: Path, name: str) -> Path:
    """The last of the directories that `next_directory` made."""
    runs = runs_of(root, name)
    if not runs:
        raise CheckpointError(f"there is no run of {name} in {root}/; leave out --resume to start one")
    return runs[-1]


def runs_of(root: Path, name: str) -> list[Path]:
    """The directories that `next_directory` made, the first first."""
    return [path for _, path in sorted(_runs(root, name))]


def _runs(root: Path, name: str) -> list[tuple[int, Path]]:
    directories = ((numbered(path.name, name), path) for path in (root.iterdir() if root.is_dir() else ()))
    return [(number, path) for number, path in directories if number is not None and path.is_dir()]


def numbered(directory: str, name: str) -> int | None:
    """Number of a directory among those that `next_directory` makes for a name; None for another one."""
    match = re.fullmatch(re.escape(name) + r"(?:-([1-9]\d*))?", directory)
    return match and int(match[1] or 1)


def checkpoint_name(step: int) -> str:
    """The name of the checkpoint of a step, in a run and in its mirror."""
    return f"step-{step:08d}"


def checkpoint_step(name: str) -> int | None:
    """The step of the checkpoint of this name; None for another name."""
    match = re.fullmatch(r"step-(\d+)", name)
    return match and int(match[1])


def local_run(path: str | os.PathLike[str]) -> Path:
    """The path of a run; a CheckpointError for the address of its mirror."""
    if "://" in os.fspath(path):
        raise CheckpointError(f"{path} is the place of a mirror; get the run first: burnlike runs --fetch {path}")
    return Path(path)


def config_of(run: Path) -> Path:
    """The file of the config that a run was started with."""
    path = run / CONFIG_NAME
    if run.suffix in (".yaml", ".yml") and run.is_file():
        raise CheckpointError(
            f"{run} is a config, and a run is expected: `burnlike train {run}` makes one, runs/{run.stem}; then give"
            f" its name, {run.stem}"
        )
    if not path.is_file():
        raise CheckpointError(
            f"there is no run at {run} (it has no {CONFIG_NAME}); check the path, or name the config too"
        )
    refuse_links(run)
    return path


def refuse_links(run: Path) -> None:
    """A RunDirError if something in a run, which may be a stranger's, is a link to outside of it."""
    try:
        check_links(run, _OF_OTHERS)
    except OSError as error:
        remedy = "put the file or directory itself there, or remove the link"
        raise RunDirError(f"{error.filename}: {error.strerror or error}; {remedy}") from error


def keep_facts(
    run: Path, classes: Sequence[str] | None, facts: Mapping[str, Any], files: Mapping[str, Path | bytes]
) -> None:
    """Write `data.json`, and a copy of each file and directory, or its content; copies that are there already stay."""
    text = json.dumps({"classes": None if classes is None else list(classes), "facts": dict(facts)}, indent=1)
    try:
        replace_file(run / DATA_NAME, text.encode() + b"\n")
        folder = run / DATA_FOLDER
        if not files or folder.is_dir():
            return
        with AtomicDirectory(folder) as partial:
            for name, source in files.items():
                if isinstance(source, bytes):
                    make_directories((partial.path / name).parent)
                    replace_file(partial.path / name, source)
                else:
                    copy_files(source, partial.path / name)
            partial.commit()
    except OSError as error:
        raise RunDirError(f"{run}: what is kept of the data can't be written: {error}") from error


def keep_description(run: Path, files: Mapping[str, bytes]) -> None:
    """Write the files that describe a run's model (`ModuleConfig.description`); existing files stay."""
    try:
        for name, content in files.items():
            if not (run / name).exists():
                replace_file(run / name, content)
    except OSError as error:
        raise RunDirError(f"{run}: what is kept of the model can't be written: {error}") from error


def kept_facts(run: Path) -> dict[str, Any]:
    """The facts of the data of a run, with its `classes` (None: it has none); a RunDirError if they can't be read."""
    path = run / DATA_NAME
    try:
        content = json.loads(read_regular(path, _MOST_DATA_BYTES, run))
        return {**content["facts"], "classes": content["classes"]}
    except FileNotFoundError:  # of a release before there was one
        return {"classes": None}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunDirError(f"{path} can't be read: {error}; expected what the run wrote when it began") from error


_MODEL, _CHECKPOINTS = "model", "checkpoints"
_FOLDER = "checkpoint"  # in the directory of the training's artifacts
_BURN_MODEL = re.compile(r"model-(\d+)\.bpk")


def record_at(text: str) -> str:
    """The record to read for a path: a file itself; a checkpoint's model; a run's result; the model of the last
    checkpoint of Burn's Learner; or the weights in another directory, in one file or several.

    Raises:
        RecordIOError: the directory has none; the message says what it is.
    """
    path = Path(text).expanduser()
    if not path.is_dir():
        return text if "://" in text else str(path)  # a path has no empty part
    file, sharded = path / f"{_MODEL}.safetensors", path / _MODEL
    if path.parent.name == _CHECKPOINTS or (path / "training.safetensors").exists():
        if existing := next((it for it in (file, sharded) if it.exists()), None):
            return str(existing)
        raise RecordIOError(f"{text}: expected a checkpoint with {file.name} or a folder {_MODEL}, which has none")
    if (path / LOCK_NAME).exists() or (path / CONFIG_NAME).exists():
        if file.exists():
            return str(file)
        if adapters_in(path):
            return weights_of(path)  # which says it
        steps = sorted((path / _CHECKPOINTS).glob("step-*"))
        remedy = f"; its last checkpoint is {steps[-1]}" if steps else ", and no checkpoint"
        raise RecordIOError(f"{text}: this run has no {file.name} yet, which it writes at its end{remedy}")
    if (existing := burn_checkpoint(path)) is not None:
        return str(burn_file(existing[0], _MODEL, existing[1]))
    if not any(path.iterdir()):
        raise RecordIOError(f"{text}: expected a record, a checkpoint, a run or a directory of weights; it is empty")
    return weights_of(path)


def record_problem(text: str) -> str:
    """The problem of the record that a path names, its values left unread; empty if there is none, or no record."""
    if not os.path.exists(os.path.expanduser(text)):
        return ""
    try:
        return weights_problem(record_at(text))
    except RecordIOError as error:
        return str(error)


def burn_checkpoint(directory: str | os.PathLike[str]) -> tuple[Path, int] | None:
    """The directory of the files and the last epoch, for it or the one around it; None if there are no such files."""
    for folder in (Path(directory), Path(directory) / _FOLDER):
        if folder.is_dir():
            epochs = [int(match[1]) for name in os.listdir(folder) if (match := _BURN_MODEL.fullmatch(name))]
            if epochs:
                return folder, max(epochs)
    return None


def burn_file(folder: Path, kind: str, epoch: int) -> Path:
    """The file of a `model`, `optim` or `scheduler`."""
    return folder / f"{kind}-{epoch}.bpk"
