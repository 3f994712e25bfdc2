"""A copy of a run in another place, such as a bucket of S3: its checkpoints, and at the end its result.

PLACE/RUN/mirror.json          whose the directory is: of which run, and which process copies to it
PLACE/RUN/step-00000200/       a checkpoint, and in `run/` what the run's directory had beside it
PLACE/RUN/result/              what the run's directory had at the end
PLACE/RUN/step-00000200.json   the list that makes it whole, see below

Each set of files, in a place that fsspec reaches, is there whole or not at all.

    PLACE/NAME/model.safetensors, ...    the files of a set
    PLACE/NAME.json                      their sizes and hashes, written last and removed first

Without the second, what is there of the first is no set: half of one, or one that is being removed.
"""

import hashlib
import json
import os
import platform
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._atomic import AtomicDirectory, AtomicFile, make_directories, replace_file, sync_directory
from ..._regular_file import check_within, digest_of, open_regular, read_regular
from ...errors import CheckpointError, ConfigError
from ..runs.run_dir import LOCK_NAME, RunDir, checkpoint_name, checkpoint_step, numbered

if TYPE_CHECKING:
    from .checkpointer import Checkpoint


_BLOCK_BYTES = 8 << 20

FileFacts = Mapping[str, tuple[int, str]]
"""The size and the hash of each file of a set."""


class MirrorFiles:
    """The sets at `place`; errors are those of its file system, but for `as_checkpoint_errors`."""

    def __init__(self, place: str) -> None:
        """Nothing is read yet; a ConfigError says which package is missing."""
        self.place = place.rstrip("/")
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise ConfigError("checkpoint.mirror needs the package fsspec: pip install 'burnlike[mirror]'") from error
        try:
            self._files, root = url_to_fs(self.place)
        except ImportError as error:  # that of one kind of place, such as s3fs
            raise ConfigError(f"checkpoint.mirror: {self.place}: {error}") from error
        except Exception as error:  # whatever a file system raises for a place that is none of its
            raise CheckpointError(f"checkpoint.mirror: {self.place} can't be used: {short(error)}") from error
        self._root = str(root).rstrip("/")
        self._is_local = "file" in self._files.protocol
        self._folders = set[str]()  # that are there, since the last look

    @contextmanager
    def as_checkpoint_errors(self, what: str = "read") -> Iterator[None]:
        """Within the `with` block, what any file system raises is a CheckpointError that it can't be read."""
        try:
            yield
        except CheckpointError:
            raise
        except Exception as error:
            raise CheckpointError(
                f"the mirror {self.place} can't be {what}: {short(error)}; expected a place that is there, such as a"
                " bucket, and credentials that may read and write it"
            ) from error

    def names(self) -> list[str]:
        """Names of all that lies in the place, in order; none where it is not there."""
        self._files.invalidate_cache()  # fsspec keeps listings, in which what another process has written is missing
        self._folders.clear()
        try:
            paths = self._files.ls(self._root, detail=False)
        except FileNotFoundError:
            return []
        return sorted({str(path).rstrip("/").rpartition("/")[2] for path in paths})

    def sets(self) -> dict[str, FileFacts]:
        """The files of each whole set, by its name; a list that was cut or names no file makes none."""
        lists = ((it.removesuffix(".json"), self.content(it)) for it in self.names() if it.endswith(".json"))
        sets: dict[str, FileFacts] = {}
        for name, content in lists:
            with suppress(AttributeError, KeyError, TypeError, ValueError, OverflowError):
                files = content["files"]
                sets[name] = {str(file): (int(size), str(digest)) for file, (size, digest) in files.items()}
        return {name: files for name, files in sets.items() if files}

    def content(self, name: str) -> Any:
        """Content of a file of JSON; None where there is none, or half of one."""
        with suppress(FileNotFoundError, ValueError):
            return json.loads(self._files.cat_file(f"{self._root}/{name}"))
        return None

    def write(self, name: str, content: Any) -> None:
        self._make_folder(self._root)
        with self._writing(f"{self._root}/{name}") as out:
            out.write(json.dumps(content).encode())

    def put(self, name: str, sources: Mapping[str, Path]) -> None:
        """Copy files, by the names that they get, as a set in place of one of this name."""
        # First: until the new list is there, half of the old files and half of the new ones are no set.
        self._remove(f"{name}.json")
        listed: dict[str, tuple[int, str]] = {}
        for file, path in sorted(sources.items()):
            target = f"{self._root}/{name}/{file}"
            self._make_folder(target.rpartition("/")[0])
            with open_regular(path) as opened, self._writing(target) as out:
                listed[file] = _passed(opened, out.write)
        self.write(f"{name}.json", {"files": listed})

    def get(
        self, name: str, files: FileFacts, target: Callable[[str, tuple[int, str]], Path | None], within: Path
    ) -> None:
        """Copy the files of a set to where `target` says for each, or leave out those for which it says None.

        Each appears under its name when it is whole and what was copied there; else a CheckpointError names it. Links
        out of the directory `within` are not followed.
        """
        for file in files:
            # The list is what a stranger may have written: no name in it leads out of the directory.
            if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in file.split("/")):
                raise CheckpointError(f"{self.place} names the file {file[:80]!r}, expected one in {name}")
        for file, facts in files.items():
            if (path := target(file, facts)) is not None:
                check_within(path, within)
                make_directories(path.parent)
                self._download(f"{name}/{file}", path, facts, within)

    def remove(self, name: str) -> None:
        for path in (f"{name}.json", name):
            self._remove(path)

    def _remove(self, name: str) -> None:
        if self._files.exists(f"{self._root}/{name}"):
            self._files.rm(f"{self._root}/{name}", recursive=True)
            if self._is_local:
                sync_directory(self._root)  # so that no list comes back whose files are gone

    @contextmanager
    def _writing(self, path: str) -> Iterator[Any]:
        """A file to write; on a disk of this machine it is there when it is whole and synced, as other places do it."""
        if self._is_local:
            with AtomicFile(path) as file:
                yield file
                file.commit()
        else:
            with self._files.open(path, "wb") as file:
                yield file

    def _download(self, source: str, target: Path, facts: tuple[int, str], within: Path) -> None:
        present: tuple[int, str] | None = None
        with AtomicFile(target, within=within) as file:
            with suppress(FileNotFoundError), self._files.open(f"{self._root}/{source}", "rb") as opened:
                present = _passed(opened, file.write)
            if present != facts:
                name = source.partition("/")[0]
                raise CheckpointError(
                    f"{self.place}/{source} is not the file that was copied there; remove {self.place}/{name}.json to"
                    " go on without it"
                )
            file.commit()

    def _make_folder(self, path: str) -> None:
        """Make a directory, where the place has such; never a bucket, which `makedirs` would make by itself."""
        parent = path.rpartition("/")[0]
        if parent and path not in self._folders and not self._files.isdir(path):
            self._make_folder(parent)
            with suppress(FileExistsError):
                self._files.mkdir(path, create_parents=False)
        self._folders.add(path)


def _passed(opened: Any, write: Callable[[bytes], object]) -> tuple[int, str]:
    """Copy an open file to `write`; returns its size and hash."""
    digest, size = hashlib.sha256(), 0
    while block := opened.read(_BLOCK_BYTES):
        digest.update(block)
        size += len(block)
        write(block)
    return size, digest.hexdigest()


def short(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


_OWNER, _RESULT, _OF_RUN = "mirror.json", "result", "run/"
_OF_RESULT = ("model.safetensors", "results.json")
_NOT_COPIED = (LOCK_NAME, _OWNER, "checkpoints", "logs")
_MOST_BYTES = 1 << 22


class Mirror:
    """The mirror of one run at `place`, which any file system of fsspec may be in; `claim` it before anything else.

    What goes wrong while it is brought up to date is said by `notes`, and tried again after the next checkpoint.
    """

    def __init__(self, place: str, run: Path) -> None:
        """Nothing is read yet; a ConfigError says which package is missing, a CheckpointError that it is no place."""
        self._run = run
        self.place = f"{place.rstrip('/')}/{run.resolve().name}"
        self._files = MirrorFiles(self.place)
        # Of the fields below, which the training and the thread that copies share.
        self._lock = threading.Lock()
        self._wanted: Callable[[], Sequence[Checkpoint]] | None = None
        self._has_result = False
        self._worker: threading.Thread | None = None
        self._notes: list[str] = []
        self._has_failed = False
        self._holder = ""

    def claim(self, *, is_new: bool, has_checkpoints: bool) -> None:
        """Take the directory for this run and this process, from which on no other one copies there.

        Args:
            is_new: whether the run begins now: the directory may not be that of another one.
            has_checkpoints: whether the run has some here: it can't be one that is known by its mirror alone.

        Raises:
            CheckpointError: it is of another run, or can't be read or written.
        """
        owner = self._expect_own(is_new=is_new, has_checkpoints=has_checkpoints)
        self._holder = os.urandom(8).hex()
        run = owner.get("run") or _noted_in(self._run).get("run") or os.urandom(8).hex()
        since = datetime.now(UTC).isoformat(timespec="seconds")
        content = {"run": run, "holder": self._holder, "host": platform.node(), "since": since}
        with self._files.as_checkpoint_errors("written"):
            self._files.write(_OWNER, content)
        self._note(content)

    def note_owner(self, *, has_checkpoints: bool) -> None:
        """Note in the run's directory whose mirror this is, for one who reads it; see `claim` for errors."""
        self._note(self._expect_own(is_new=False, has_checkpoints=has_checkpoints))

    def _expect_own(self, *, is_new: bool, has_checkpoints: bool) -> Mapping[str, Any]:
        with self._files.as_checkpoint_errors():
            owner, steps = self._owner(), self.steps()
        noted_run = _noted_in(self._run).get("run")
        if (owner or steps) and (is_new or has_checkpoints) and (noted_run is None or noted_run != owner.get("run")):
            last = f", up to step {steps[-1]}" if steps else ""
            raise CheckpointError(
                f"the mirror {self.place} has checkpoints of another run{_origin_of(owner)}{last}; go on with that"
                f" run by --resume {self._run}, where no other one of this name is, or give the new one another name by"
                " --run-dir"
            )
        return owner

    def expect_one(self) -> None:
        """A CheckpointError where the place has no run of this name."""
        with self._files.as_checkpoint_errors():
            if not self._owner() and not self.steps():
                raise CheckpointError(f"there is no run at {self._run}, and none in the mirror at {self.place}")

    def fetch_beside(self) -> None:
        """Copy the run's other files as of the last checkpoint, such as its config, where they are missing here."""
        with self._files.as_checkpoint_errors():
            checkpoints = self._checkpoints()
            for step in [*checkpoints][-1:]:
                beside = {file: value for file, value in checkpoints[step].items() if file.startswith(_OF_RUN)}
                self._get(checkpoint_name(step), beside, _OF_RUN, self._run)

    def steps(self) -> list[int]:
        """The steps of the whole checkpoints, in order; a CheckpointError if it can't be looked at."""
        with self._files.as_checkpoint_errors():
            return [*self._checkpoints()]

    def _checkpoints(self) -> dict[int, FileFacts]:
        """The files of each whole checkpoint, by its step, in order; files of the run alone are none."""
        checkpoints: dict[int, FileFacts] = {}
        for name, files in self._files.sets().items():
            if (step := checkpoint_step(name)) is not None and any(not it.startswith(_OF_RUN) for it in files):
                checkpoints[step] = files
        return dict(sorted(checkpoints.items()))

    def fetch(self, directory: Path, after: int = -1) -> int | None:
        """Copy the last whole checkpoint into `directory`, if it is of a step `after` this; the step.

        Files of the run come with it; one that was changed here stays, which `notes` say. A CheckpointError says what
        is damaged or can't be read.
        """
        with self._files.as_checkpoint_errors():
            checkpoints = self._checkpoints()
            step = max(checkpoints, default=after)
            if step <= after:
                return None
            name = checkpoint_name(step)
            with AtomicDirectory(directory / name) as partial:
                self._get(name, checkpoints[step], _OF_RUN, partial.path)
                partial.commit()
        return step

    def fetch_result(self) -> bool:
        """Copy the run's final files; False where the run has not ended yet. See `fetch`."""
        with self._files.as_checkpoint_errors():
            listed = self._files.sets().get(_RESULT)
            if listed is not None:
                self._get(_RESULT, listed, "", self._run)
        return listed is not None

    def _get(self, name: str, listed: FileFacts, prefix: str, directory: Path) -> None:
        """Copy a set: what begins with `prefix` into the run's directory, the rest into `directory`.

        A file that is there is compared with the list. It stays if it was changed here, and is replaced if not.
        """
        # The hashes of the files of the run's directory that came from here, by name, the last two of each.
        noted = _noted_in(self._run).get("fetched")
        before = {name: it for name, it in noted.items() if isinstance(it, list)} if isinstance(noted, dict) else {}
        new = {file.removeprefix(prefix): it for file, (_, it) in listed.items() if file.startswith(prefix)}
        # Noted before they come: what a kill leaves of them is of the mirror, too.
        self._note(fetched={**before, **{file: [*before.get(file, [])[-1:], value] for file, value in new.items()}})
        changed: list[str] = []

        def target(file: str, facts: tuple[int, str]) -> Path | None:
            if not file.startswith(prefix):
                return directory / file
            shown = file.removeprefix(prefix)
            path, first = self._run / shown, shown.partition("/")[0]
            if first in _NOT_COPIED or first[:1] == ".":
                return None
            if not path.exists():
                return path
            present = digest_of(path)
            if present == facts:
                return None
            if present[1] in before.get(shown, []):
                return path
            if digest_of(path, facts[0]) != facts:  # else it is a log that went on
                changed.append(shown)
            return None

        self._files.get(name, listed, target, self._run)
        if changed:
            with self._lock:
                self._notes.append(
                    f"{self._run} keeps its own {', '.join(changed)}, of which the mirror has other ones; move them"
                    " away to get those"
                )

    def _note(self, owner: Mapping[str, Any] | None = None, fetched: Mapping[str, list[str]] | None = None) -> None:
        """Note in the run's directory whose mirror this is, and what came from it; None: as it says already."""
        noted = _noted_in(self._run)
        content = {**(noted if owner is None else owner), "fetched": fetched or noted.get("fetched", {})}
        make_directories(self._run)
        replace_file(self._run / _OWNER, json.dumps(content).encode(), within=self._run)

    def update(self, present: Callable[[], Sequence["Checkpoint"]], *, has_result: bool = False) -> None:
        """Let the mirror copy new ones of the `present` checkpoints in the background, and remove others.

        With `has_result` it gets the run's other files, too.
        """
        with self._lock:
            self._wanted, self._has_result = present, has_result
            if self._worker is None:
                # No daemon: the program does not end before the mirror has all.
                self._worker = threading.Thread(target=self._work, name=f"copying to {self.place}", daemon=False)
                self._worker.start()

    def notes(self, *, wait: bool = False) -> list[str]:
        """Errors and recoveries since the last call; `wait` for what is being copied."""
        worker = self._worker
        if wait and worker is not None:
            worker.join()
        with self._lock:
            notes, self._notes = self._notes, []
        return notes

    def _work(self) -> None:
        while True:
            with self._lock:
                (present, has_result), self._wanted = (self._wanted, self._has_result), None
                if present is None:
                    self._worker = None  # within the lock: `update` starts another, or this one sees its request
                    return
            note = ""
            try:
                self._bring_up_to_date(present, has_result)
                if self._has_failed:
                    note = f"the mirror {self.place} has all checkpoints again"
                self._has_failed = False
            except Exception as error:  # of any file system
                self._has_failed = True
                again = f"by --resume {self._run}" if has_result else "after the next checkpoint"
                note = f"the mirror {self.place} could not be brought up to date: {short(error)}; it is tried again"
                note += f" {again}"
            if note:
                with self._lock:
                    self._notes.append(note)

    def _bring_up_to_date(self, present: Callable[[], Sequence["Checkpoint"]], has_result: bool) -> None:
        names = self._files.sets().keys()  # which forgets what was listed before
        if self._holder and (owner := self._owner()).get("holder") != self._holder:
            raise CheckpointError(f"another process copies to it{_origin_of(owner)}; this one does not any more")
        for checkpoint in present():
            if checkpoint_name(checkpoint.step) not in names:
                sources = {f"{_OF_RUN}{name}": path for name, path in self._own_files(with_result=False).items()}
                try:
                    self._files.put(checkpoint_name(checkpoint.step), {**sources, **_below(checkpoint.path)})
                except FileNotFoundError:
                    if checkpoint.path.exists():  # it has been removed meanwhile
                        raise
        if has_result:
            self._files.put(_RESULT, self._own_files(with_result=True))
        stays = {checkpoint_name(it.step) for it in present()}
        for name in {it.partition(".")[0] for it in self._files.names()} - stays:
            if checkpoint_step(name) is not None:
                self._files.remove(name)

    def _own_files(self, *, with_result: bool) -> dict[str, Path]:
        """The files of the run's directory, by their names there, without checkpoints and logs."""
        files = {}
        for name, path in _below(self._run).items():
            first, is_below = name.partition("/")[0], "/" in name
            is_result = first in _OF_RESULT or (is_below and first != "data")
            if first not in _NOT_COPIED and first[0] != "." and (with_result or not is_result):
                files[name] = path
        return files

    def _owner(self) -> Mapping[str, Any]:
        content = self._files.content(_OWNER)
        return content if isinstance(content, dict) else {}


def fetch_run(url: str, root: Path) -> tuple[Path, list[str]]:
    """Make `root/NAME` of the mirror `PLACE/NAME`, or bring it up to date; the directory, and what came.

    Raises:
        CheckpointError: there is no such mirror, another run has this name here, or files were changed here.
    """
    place, run = parts_of_url(url, root)
    mirror = Mirror(place, run)
    mirror.expect_one()
    with closing(RunDir.open(run, may_lack=True)):
        steps = [step for path in run.glob("checkpoints/*") if (step := checkpoint_step(path.name)) is not None]
        mirror.note_owner(has_checkpoints=bool(steps))
        step = mirror.fetch(run / "checkpoints", max(steps, default=-1))
        result = mirror.fetch_result()
    if kept := mirror.notes():
        raise CheckpointError("; ".join(dict.fromkeys(kept)))
    return run, [*([] if step is None else [f"the checkpoint of step {step}"]), *(["the result"] if result else [])]


def parts_of_url(url: str, root: Path) -> tuple[str, Path]:
    """The place of mirrors, and the directory in `root` of the run whose mirror is at a URL."""
    place, _, name = url.rstrip("/").rpartition("/")
    if not name or place.endswith((":", ":/")):
        raise CheckpointError(f"{url}: expected the mirror of a run, such as s3://bucket/path/RUN")
    return place, root / name


def newest_name(place: str, name: str) -> str | None:
    """The last of the runs `name`, `name-2` and so on that have a mirror in `place`."""
    files = MirrorFiles(place)
    with files.as_checkpoint_errors():
        numbered_names = [(number, it) for it in files.names() if (number := numbered(it, name)) is not None]
    return max(numbered_names)[1] if numbered_names else None


def _below(directory: Path) -> dict[str, Path]:
    """The files of a directory by their names there, but for links out of it."""
    root = directory.resolve()
    files = (path for path in directory.rglob("*") if path.is_file() and path.resolve().is_relative_to(root))
    return {str(file.relative_to(directory)): file for file in files}


def _noted_in(run: Path) -> Mapping[str, Any]:
    """The notes of this run about its mirror."""
    with suppress(OSError, ValueError):
        content = json.loads(read_regular(run / _OWNER, _MOST_BYTES, run))
        return content if isinstance(content, dict) else {}
    return {}


def _origin_of(owner: Mapping[str, Any]) -> str:
    return f", on {str(owner.get('host'))[:80]} since {str(owner.get('since'))[:40]}" if owner else ""
