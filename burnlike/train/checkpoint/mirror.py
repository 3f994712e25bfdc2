"""A copy of a run's checkpoints in another place, such as a bucket of S3, by fsspec.

    PLACE/RUN/step-00000200/model.safetensors, ...    the files of a checkpoint, and in `run/` those of the run
    PLACE/RUN/step-00000200.json                      their sizes and hashes, written last and removed first

Without the second, what is there of the first is no checkpoint: half of one, or one that is being removed.
"""

import hashlib
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ..._atomic import AtomicDirectory
from ...errors import CheckpointError, ConfigError

_BLOCK_BYTES = 8 << 20
_OF_RUN = "run"
_KEPT_OF_RUN = ("config.yaml", "metrics.jsonl")
_STEP = "step-"


class Whole(Protocol):
    """A checkpoint in the run's directory."""

    @property
    def step(self) -> int: ...
    @property
    def path(self) -> Path: ...


class Mirror:
    """The checkpoints of one run at `place`, which any filesystem of fsspec may be in.

    What goes wrong while it is brought up to date is said by `notes`, and tried again after the next checkpoint.
    """

    def __init__(self, place: str, run: Path) -> None:
        """Reach the place; a CheckpointError says why it can't be, a ConfigError which package is missing."""
        self._run = run
        self.place = f"{place.rstrip('/')}/{run.resolve().name}"
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise ConfigError("checkpoint.mirror needs the package fsspec: pip install 'burnlike[mirror]'") from error
        try:
            self._files, self._root = url_to_fs(self.place)
        except ImportError as error:  # that of one kind of place, such as s3fs
            raise ConfigError(f"checkpoint.mirror: {place}: {error}") from error
        except Exception as error:  # whatever a file system raises for a place that is none of its
            raise CheckpointError(f"checkpoint.mirror: {place} can't be used: {_short(error)}") from error
        self._lock = threading.Lock()
        self._wanted: Callable[[], Sequence[Whole]] | None = None
        self._worker: threading.Thread | None = None
        self._notes: list[str] = []
        self._has_failed = False

    def steps(self) -> list[int]:
        """The steps of the whole checkpoints, in order; a CheckpointError if it can't be looked at."""
        try:
            return sorted(self._manifests())
        except Exception as error:  # of any file system, such as those without a connection
            raise CheckpointError(f"the mirror {self.place} can't be read: {_short(error)}") from error

    def fetch(self, directory: Path, after: int = -1) -> int | None:
        """Copy the last whole checkpoint into `directory`, if it is of a step `after` this; the step.

        Files of the run that are not there come with it. A CheckpointError says what is damaged or can't be read.
        """
        steps = [step for step in self.steps() if step > after]
        if not steps:
            return None
        name = _name(steps[-1])
        try:
            listed = self._manifests()[steps[-1]]
            with AtomicDirectory(directory / name) as partial:
                for file, (size, digest) in listed.items():
                    own = self._own_place(partial.path, file)
                    if own is not None:
                        own.parent.mkdir(parents=True, exist_ok=True)
                        if self._download(f"{self._root}/{name}/{file}", own) != (size, digest):
                            raise CheckpointError(f"{self.place}/{name}/{file} is not the file that was copied there")
                partial.commit()
        except CheckpointError:
            raise
        except Exception as error:
            raise CheckpointError(f"the mirror {self.place} can't be read: {_short(error)}") from error
        return steps[-1]

    def update(self, present: Callable[[], Sequence[Whole]]) -> None:
        """Have the mirror get what is new of the checkpoints that are `present`, in the background; others go."""
        with self._lock:
            self._wanted = present
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name=f"copying to {self.place}", daemon=False)
                self._worker.start()

    def notes(self, *, wait: bool = False) -> list[str]:
        """What went wrong, and that it is right again, since the last call; `wait` for what is being copied."""
        worker = self._worker
        if wait and worker is not None:
            worker.join()
        with self._lock:
            found, self._notes = self._notes, []
        return found

    def _work(self) -> None:
        while True:
            with self._lock:
                present, self._wanted = self._wanted, None
                if present is None:
                    self._worker = None
                    return
            note = ""
            try:
                self._bring_up_to_date(present)
                if self._has_failed:
                    note = f"the mirror {self.place} has all checkpoints again"
                self._has_failed = False
            except Exception as error:  # of any file system
                self._has_failed = True
                note = (
                    f"the mirror {self.place} could not be brought up to date: {_short(error)}; it is tried again after"
                    " the next checkpoint"
                )
            if note:
                with self._lock:
                    self._notes.append(note)

    def _bring_up_to_date(self, present: Callable[[], Sequence[Whole]]) -> None:
        there = self._manifests()
        for checkpoint in present():
            if checkpoint.step not in there:
                try:
                    self._upload(checkpoint)
                except FileNotFoundError:
                    if checkpoint.path.exists():  # it has been removed meanwhile
                        raise
        stays = {_name(it.step) for it in present()}
        for name in self._names():
            if name.partition(".")[0] not in stays:
                self._remove(name.partition(".")[0])

    def _upload(self, checkpoint: Whole) -> None:
        name = _name(checkpoint.step)
        sources = {str(it.relative_to(checkpoint.path)): it for it in checkpoint.path.rglob("*") if it.is_file()}
        sources |= {f"{_OF_RUN}/{it}": self._run / it for it in _KEPT_OF_RUN if (self._run / it).is_file()}
        self._files.makedirs(f"{self._root}/{name}", exist_ok=True)
        listed = {file: self._copy(path, f"{self._root}/{name}/{file}") for file, path in sorted(sources.items())}
        self._files.pipe_file(f"{self._root}/{name}.json", json.dumps({"files": listed}).encode())

    def _copy(self, source: Path, target: str) -> tuple[int, str]:
        """Copy a file into the mirror; its size and hash."""
        self._files.makedirs(target.rpartition("/")[0], exist_ok=True)
        with open(source, "rb") as opened, self._files.open(target, "wb") as out:
            return _passed(opened, out)

    def _download(self, source: str, target: Path) -> tuple[int, str]:
        with self._files.open(source, "rb") as opened, open(target, "wb") as out:
            found = _passed(opened, out)
            out.flush()
            os.fsync(out.fileno())
        return found

    def _own_place(self, directory: Path, file: str) -> Path | None:
        """Where a file of the mirror goes; None for one of the run's that is there already."""
        parts = file.split("/")
        if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
            raise CheckpointError(f"{self.place} names the file {file[:80]!r}, expected one in the checkpoint")
        if parts[0] != _OF_RUN:
            return directory.joinpath(*parts)
        if len(parts) != 2 or parts[1] not in _KEPT_OF_RUN:
            return None
        own = self._run / parts[1]
        return None if own.exists() else own

    def _remove(self, name: str) -> None:
        for path in (f"{self._root}/{name}.json", f"{self._root}/{name}"):
            if self._files.exists(path):
                self._files.rm(path, recursive=True)

    def _names(self) -> list[str]:
        self._files.invalidate_cache()
        if not self._files.exists(self._root):
            return []
        paths = self._files.ls(self._root, detail=False)
        names = (str(path).rstrip("/").rpartition("/")[2] for path in paths)
        return [name for name in names if name.startswith(_STEP) and name[len(_STEP) :].partition(".")[0].isdigit()]

    def _manifests(self) -> dict[int, Mapping[str, tuple[int, str]]]:
        found: dict[int, Mapping[str, tuple[int, str]]] = {}
        for name in self._names():
            if name.endswith(".json"):
                content: Any = json.loads(self._files.cat_file(f"{self._root}/{name}"))
                files = {str(file): (int(size), str(digest)) for file, (size, digest) in content["files"].items()}
                found[int(name.removesuffix(".json")[len(_STEP) :])] = files
        return found


def _passed(opened: Any, out: Any) -> tuple[int, str]:
    """Write what a file has to another; its size and hash."""
    digest, size = hashlib.sha256(), 0
    while block := opened.read(_BLOCK_BYTES):
        digest.update(block)
        size += len(block)
        out.write(block)
    return size, digest.hexdigest()


def _name(step: int) -> str:
    return f"{_STEP}{step:08d}"


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
