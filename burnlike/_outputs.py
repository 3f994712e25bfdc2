"""Places of outputs: where a command may write, and how its files and directories get there.

An output replaces an earlier output of the same command, and nothing else. With `force` it also replaces another file,
but never an input of the command, a file in the directory of a run, or a directory.
"""

import contextlib
import ctypes
import errno
import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ._atomic import AtomicDirectory, AtomicFile, move_files, replace_file, sync_directory, sync_tree
from ._regular_file import digest_of, open_regular, read_regular
from .errors import ArgumentError

MARKER = ".burnlike-output.json"
"""The file in a directory that a command has written: the command's name, and the fingerprints of its files."""
_OF_RUNS = (("run.lock",), ("config.yaml", "metrics.jsonl"))
"""Files by which the directory of a run is known: the first, or where it was copied without its lock the others."""
_CHECKPOINTS = "checkpoints"
_HASHED_BYTES = 1 << 20
"""Files up to this size, which people edit, are compared by their content; larger ones by their size."""
_MARKER_BYTES = 1 << 24
_BLOCK = 1 << 20
_LONGEST_MARK = 512
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


class Output:
    """A place that a command writes to; what is there is looked at before the work, and again before it is replaced.

    Attributes:
        path: the place, with links followed; `str` gives it as the user wrote it.
        inputs: files and directories that the command reads.
        kept: names in an earlier output that its own programs have made, and that the next one gets.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        command: str,
        option: str = "--out",
        *,
        inputs: Iterable[str | os.PathLike[str]] = (),
        force: bool | None = None,
        mark: "re.Pattern[bytes] | None" = None,
    ) -> None:
        """
        Args:
            command: the name by which its earlier outputs are known.
            force: whether another file may be replaced; None: the command has no such option.
            mark: bytes of every file that the command writes, the first ones or at most 512; None: there are none.
        """
        self._shown, self._command, self._option = os.fspath(path), command, option
        self.inputs, self._force, self._mark = [*inputs], force, mark
        self.kept: tuple[str, ...] = ()
        if not self._shown:
            raise ArgumentError(f"{option}: expected a path, got an empty text")
        self.path = Path(os.path.realpath(path))

    @classmethod
    def of(
        cls, place: "Output | str | os.PathLike[str]", command: str, mark: "re.Pattern[bytes] | None" = None
    ) -> "Output":
        """The output itself, or one at a path that replaces nothing but an earlier one."""
        return place if isinstance(place, Output) else cls(place, command, "out", mark=mark)

    def __str__(self) -> str:
        return self._shown

    def check_place(self) -> None:
        """Raise an ArgumentError if nothing at all may be written here, whether something is there or not."""
        place = Path(os.path.abspath(self._shown))
        around = next((parent for parent in place.parents if os.path.lexists(parent)), place)
        if around != place and not around.is_dir():
            raise self._error(f"{around} is no directory; choose another place")
        for source in self.inputs:
            real = Path(os.path.realpath(source))
            if real.is_relative_to(self.path) or _is_same(real, self.path):
                verb = "is" if real == self.path else "would replace"
                raise self._error(f"{verb} an input of the command, {os.fspath(source)}; choose another place")
        run = run_of(place)
        if run is not None and not self.path.is_relative_to(os.path.realpath(run)):
            raise self._error(f"a link leads out of the run {run} to {self.path}; name the place itself")
        run = run_of(self.path)
        if run is not None and self.path.is_relative_to(run / _CHECKPOINTS):
            raise self._error(f"is among the checkpoints of the run {run}; choose another place")

    def check_file(self) -> None:
        """Raise an ArgumentError if no file may be written here."""
        if self.path.is_dir():
            raise self._error("expected the name of a file, got a directory")
        self.check_place()
        if not self._is_taken():
            return
        is_link = os.path.islink(self._shown)
        if self.path.exists() and not self.path.is_file():
            raise self._error("expected the name of a file, got a device or a pipe")
        if not is_link and self._is_earlier():
            return
        if holder := next((it for it in self.inputs if Path(os.path.realpath(it)) in self.path.parents), None):
            raise self._error(f"is a file of {os.fspath(holder)}, an input of the command; choose another name")
        if run := run_of(self.path):
            raise self._error(f"is there already, in the directory of the run {run}; choose another name")
        if not self._force:
            advice = "" if self._force is None else ", or add --force"
            what = f"is a link to {self.path}" if is_link else "is there already and stays as it is"
            raise self._error(f"{what}; choose another name{advice}")

    def check_directory(self) -> None:
        """Raise an ArgumentError if no directory may be written here."""
        self.check_place()
        if not self._is_taken():
            return
        if os.path.islink(self._shown.rstrip("/")):
            raise self._error(f"is a link to {self.path}; name the directory itself")
        if not self.path.is_dir():
            raise self._error("expected the name of a directory, got a file")
        current = Path.cwd()
        if self.path == current or self.path in current.parents:
            raise self._error("is the current directory, which would be replaced; give the name of a new one")
        if problem := self._foreign():
            raise self._error(f"is there already and {problem}; choose another directory")

    def check_folder(self) -> None:
        """Raise an ArgumentError if files may not be written into this directory, beside those that are there."""
        self.check_place()
        if not self._is_taken():
            return
        if not self.path.is_dir():
            raise self._error("expected the name of a directory, got a file")
        if not any(self.path.iterdir()):
            return
        if run := run_of(self.path / MARKER):
            raise self._error(f"is in the directory of a run, {run}, whose files stay; choose another directory")
        if not self._force:
            raise self._error("is a directory with files; choose another, or let its files be replaced by --force")

    def write(self, data: bytes) -> None:
        """Write the whole file, or leave what is there."""
        self.check_file()
        replace_file(self.path, data)

    @contextmanager
    def file(self) -> Iterator[AtomicFile]:
        """A file to write, which takes its place when the `with` block ends without an error."""
        self.check_file()
        with AtomicFile(self.path) as file:
            yield file
            self.check_file()
            file.commit()

    @contextmanager
    def files(self) -> Iterator[Path]:
        """A directory in which to make the file, under its name; it takes its place when the `with` block ends well.

        So do files that were made beside it; none of several replaces a file, since they could not be swapped at once.
        """
        self.check_file()
        with AtomicDirectory(self.path) as folder:
            yield folder.path
            self.check_file()
            targets = [self.path.with_name(path.name) for path in folder.path.iterdir()]
            if taken := [target for target in targets if os.path.lexists(target)] if targets[1:] else []:
                raise self._error(
                    f"the output has {len(targets)} files, and {taken[0]} is there already; choose another"
                )
            move_files(folder.path, self.path.parent, last=self.path.name)

    @contextmanager
    def directory(self, *, marked: bool = True) -> Iterator[Path]:
        """A directory to fill, which takes its place, at once, when the `with` block ends without an error.

        A `marked` one is known as an output of the command later on, and is replaced by its next one.
        """
        self.check_directory()
        with AtomicDirectory(self.path) as new:
            yield new.path
            if marked:
                facts = {"command": self._command, "files": {name: _fingerprint(it) for name, it in _files(new.path)}}
                replace_file(new.path / MARKER, json.dumps(facts, indent=1).encode() + b"\n")
            sync_tree(new.path)
            self.check_directory()
            if self.path.is_dir() and any(self.path.iterdir()):
                _swap(new.path, self.path)  # the earlier one is at `new.path` then, and removed with it
                for name in self.kept:
                    if os.path.lexists(new.path / name):
                        os.rename(new.path / name, self.path / name)
                sync_directory(self.path.parent)
            else:
                new.commit()

    def _is_taken(self) -> bool:
        return os.path.lexists(self._shown) or os.path.lexists(self.path)

    def _is_earlier(self) -> bool:
        """True if the file has the mark of those that the command writes."""
        if self._mark is None:
            return False
        with contextlib.suppress(OSError), open_regular(self.path) as file:
            before = b""
            while block := file.read(_BLOCK):
                if self._mark.search(before + block):
                    return True
                before = block[-_LONGEST_MARK:]
        return False

    def _foreign(self) -> str:
        """A problem with the directory that is there: what the command has not written; empty if there is none."""
        present = {path.name: path for path in self.path.iterdir()}
        marker = present.pop(MARKER, None)
        facts: Any = None
        with contextlib.suppress(OSError, ValueError, RecursionError):
            facts = None if marker is None else json.loads(read_regular(marker, _MARKER_BYTES, self.path))
        written: Any = {}
        if isinstance(facts, dict) and facts.get("command") == self._command and isinstance(facts.get("files"), dict):
            present = {name: it for name, it in _files(self.path) if name.partition("/")[0] not in self.kept}
            written = {**facts["files"], MARKER: _fingerprint(self.path / MARKER)}
        for name, file in sorted(present.items()):
            if name not in written:
                return f"holds {name}, which `burnlike {self._command}` has not written"
            if _fingerprint(file) != written[name]:
                return f"its file {name} has changed since it was written"
        return ""

    def _error(self, problem: str) -> ArgumentError:
        return ArgumentError(f"{self._option} {self._shown}: {problem}")


def run_of(path: Path) -> Path | None:
    """The directory of the run that a path lies in; None: it lies in none."""
    return next(
        (it for it in path.parents if any(all((it / name).exists() for name in some) for some in _OF_RUNS)), None
    )


def _is_same(one: Path, other: Path) -> bool:
    """True if both are one file, as two spellings of a name are where capital letters don't count."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _files(directory: Path) -> Iterator[tuple[str, Path]]:
    """Everything in a directory and below but directories, by its path from there. Links are not followed."""
    for folder, folders, names in os.walk(directory):
        for name in [*names, *(it for it in folders if os.path.islink(os.path.join(folder, it)))]:
            path = Path(folder, name)
            yield path.relative_to(directory).as_posix(), path


def _fingerprint(file: Path) -> str:
    """The size of a file, and of a small one the hash of its content; no fingerprint is that of a link or a device."""
    status = os.lstat(file)
    if not stat.S_ISREG(status.st_mode):
        return ""
    if status.st_size > _HASHED_BYTES:
        return str(status.st_size)
    size, digest = digest_of(file)
    return f"{size} {digest}"


def _swap(new: Path, old: Path) -> None:
    """Let two directories change names: at once where the system can; else the old one is put back after an error."""
    if _exchange(new, old):
        return
    aside = old.with_name(f".earlier-{old.name}-{os.urandom(6).hex()}")
    os.rename(old, aside)
    try:
        os.rename(new, old)
    except BaseException:
        os.rename(aside, old)
        raise
    os.rename(aside, new)


def _exchange(one: Path, other: Path) -> bool:
    """Let two names change places in one step; False where the system or the file system has no such step."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        return False
    raise OSError(code, os.strerror(code), os.fspath(other))
