"""Replaces a file, or makes a directory, whole or not at all: under a temporary name, synced, and renamed.

The process that writes locks what it has not renamed yet, so others can tell it from what a killed process left.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

from ._regular_file import check_links, check_within, open_regular
from .errors import RecordIOError

_BLOCK_BYTES = 1 << 20
_TEMPORARY_FILE = re.compile(r"\.(.+)\.[0-9a-f]{12}\.tmp", re.DOTALL)
_HIDDEN_DIRECTORY = re.compile(r"\.(?:partial|removed)-(.+?)(?:-[0-9a-f]{12})?", re.DOTALL)


class AtomicFile:
    """A file that appears under its name only by `commit`; `descriptor` reads and writes it.

    Until then it has a temporary name in the same directory, and leaving the `with` block removes it. The permissions
    of a file that is replaced are kept; a new one gets the owner and permissions of the file `like`, if both can be
    had. A symbolic link is followed, not replaced; OSError refuses one that leads out of the directory `within`. What a
    killed process left for the same name is removed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        like: str | os.PathLike[str] | None = None,
        within: str | os.PathLike[str] | None = None,
    ) -> None:
        if within is not None:
            check_within(path, within)
        self.path = os.path.realpath(path)
        self._like = like
        self.descriptor = -1
        self._temporary = ""

    def __enter__(self) -> Self:
        present = _status(self.path)
        if present is not None and not stat.S_ISREG(present.st_mode):
            raise RecordIOError(
                f"{self.path}: expected a file's name, got a directory or a device; nothing was written"
            )
        directory, name = os.path.split(self.path)
        name = name[:100]  # so that the temporary name is not too long for the file system
        remove_abandoned_files(directory, lambda abandoned: abandoned == name)
        if present is None and self._like is not None:
            present = _status(self._like)
        try:
            while not self._create(directory, name, 0o666 if present is None else 0o600):
                pass
            if present is not None:
                with contextlib.suppress(OSError):  # only the superuser may give files away
                    if (present.st_uid, present.st_gid) != (os.geteuid(), os.getegid()):
                        os.fchown(self.descriptor, present.st_uid, present.st_gid)
                with contextlib.suppress(OSError):  # some network file systems have no modes
                    os.fchmod(self.descriptor, stat.S_IMODE(present.st_mode))
        except BaseException:  # an interrupt, say; `__exit__` is called only for what was entered
            self.__exit__(None, None, None)
            raise
        return self

    def _create(self, directory: str, name: str, mode: int) -> bool:
        """Make the temporary file and mark it as in use until this process ends; False if a clean-up took it away."""
        self._temporary = os.path.join(directory, f".{name}.{os.urandom(6).hex()}.tmp")
        try:
            self.descriptor = os.open(self._temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        except OSError as error:
            error.filename = self.path  # the name that the user gave
            raise
        _lock(self.descriptor)
        if os.fstat(self.descriptor).st_nlink:
            return True
        os.close(self.descriptor)
        self._temporary, self.descriptor = "", -1
        return False

    def reserve(self, file_bytes: int) -> None:
        """Allocate the whole file's blocks at once: a full disk shows before any work, and writing becomes faster."""
        if not _fallocate(self.descriptor, file_bytes):
            os.ftruncate(self.descriptor, file_bytes)

    def write(self, data: bytes | memoryview) -> None:
        """Write all of `data` behind what was written before."""
        left = memoryview(data)
        while left:
            left = left[os.write(self.descriptor, left) :]

    def commit(self) -> None:
        """Sync the file, put it in its place, and sync the directory: from here on it survives a power failure."""
        os.fsync(self.descriptor)
        os.replace(self._temporary, self.path)
        self._temporary = ""
        sync_directory(os.path.dirname(self.path))

    def __exit__(self, *_: object) -> None:
        if self._temporary:
            with contextlib.suppress(OSError):
                os.unlink(self._temporary)
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def replace_file(path: str | os.PathLike[str], data: bytes, within: str | os.PathLike[str] | None = None) -> None:
    """Write `data` to `path`, whole or not at all; for `within` see `AtomicFile`."""
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    with AtomicFile(path, within=within) as file:
        file.write(data)
        file.commit()


def make_directories(directory: str | os.PathLike[str]) -> None:
    """Make a directory and those around it where they are missing; their names survive a loss of power."""
    path = Path(directory)
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fspath(path))
    missing = [parent for parent in (path, *path.parents) if not parent.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for created in missing:
        sync_directory(created.parent)


def copy_files(source: Path, target: Path) -> None:
    """Copy a file, or a directory with all in it, to a new name, and make it durable.

    `source` may be a link; OSError refuses one in a directory that leads out of it, before anything is copied.
    """
    if source.is_dir():
        check_links(source)
        for file in sorted(source.rglob("*")):
            if not file.is_dir():
                copy_files(file, target / file.relative_to(source))
        return
    make_directories(target.parent)
    with open_regular(source) as opened, AtomicFile(target) as file:
        while block := opened.read(_BLOCK_BYTES):
            file.write(block)
        file.commit()


def move_files(source: Path, target: Path, last: str = "", stale: Iterable[str] = ()) -> None:
    """Give files of a directory the places of those in another one, each whole, and make that durable.

    The one named `last` comes last; then `stale` files go that the source has none of.
    """
    sync_tree(source)
    names = sorted(os.listdir(source), key=lambda it: (it == last, it))
    for name in names:
        os.replace(source / name, target / name)
    for name in {*stale} - {*names}:
        os.unlink(target / name)
    sync_directory(target)


class AtomicDirectory:
    """A new directory that appears under its name only by `commit`.

    Until then it is at `path`, hidden in the same place, and leaving the `with` block removes it. No two writers share
    one. Directories that killed processes left for the same name are removed.
    """

    def __init__(self, target: str | os.PathLike[str]) -> None:
        self.target = self.path = Path(target)
        self._descriptor = -1

    def __enter__(self) -> Self:
        remove_abandoned_directories(self.target.parent, self.target.name)
        try:
            while not self._create():
                pass
        except BaseException:  # an interrupt, say; `__exit__` is called only for what was entered
            self.__exit__(None, None, None)
            raise
        return self

    def _create(self) -> bool:
        """Make the directory and lock it; False if a clean-up took it away before it was locked."""
        self.path = self.target.with_name(f".partial-{self.target.name}-{os.urandom(6).hex()}")
        make_directories(self.target.parent)
        self.path.mkdir()
        self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        _lock(self._descriptor)
        if self.path.exists():
            return True
        os.close(self._descriptor)
        self._descriptor = -1
        return False

    def commit(self) -> None:
        """Sync all that is in the directory, give it its name, and sync the one around it.

        FileExistsError: there is a directory of this name that is not empty.
        """
        sync_tree(self.path)
        try:
            self.path.rename(self.target)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(self.target)) from error
            raise
        self.path = self.target
        sync_directory(self.target.parent)

    def __exit__(self, *_: object) -> None:
        if self.path != self.target:
            shutil.rmtree(self.path, ignore_errors=True)
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def remove_directory(directory: Path) -> None:
    """Remove a directory that another process may be removing too; its name goes first, so it is never seen half."""
    hidden = directory.with_name(f".removed-{directory.name}-{os.urandom(6).hex()}")
    with contextlib.suppress(FileNotFoundError):
        directory.rename(hidden)
        sync_directory(directory.parent)  # after a loss of power the files may be gone, and the name still there
        shutil.rmtree(hidden, ignore_errors=True)


def remove_abandoned_directories(parent: Path, name: str | None = None) -> None:
    """Remove directories in `parent` that killed processes left half written or removed, of this `name` or of any."""
    for path in parent.iterdir() if parent.is_dir() else ():
        hidden = _HIDDEN_DIRECTORY.fullmatch(path.name)
        if hidden and name in (None, hidden[1]):
            _remove_unless_locked(path, lambda it: shutil.rmtree(it, ignore_errors=True))


def _lock(descriptor: int) -> None:
    """Mark a file or directory as in use until this process closes it, or ends."""
    with contextlib.suppress(OSError):  # some network file systems have no locks
        fcntl.flock(descriptor, fcntl.LOCK_SH)


def _status(path: str | os.PathLike[str]) -> os.stat_result | None:
    with contextlib.suppress(FileNotFoundError):
        return os.stat(path)
    return None


def remove_abandoned_files(directory: str, belongs: Callable[[str], bool]) -> None:
    """Remove temporary files for names (cut off after 100 characters) that belong, unless a process has locked them."""
    try:
        names = os.listdir(directory)
    except (PermissionError, FileNotFoundError):  # a directory may be writable without being readable
        return
    for name in names:
        temporary = _TEMPORARY_FILE.fullmatch(name)
        if temporary is not None and belongs(temporary[1]):
            _remove_unless_locked(os.path.join(directory, name), os.unlink)


def _remove_unless_locked(path: str | os.PathLike[str], remove: Callable[[Any], object]) -> None:
    """Remove a file or a directory, unless a living process has locked it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(path)
        finally:
            os.close(descriptor)


def _fallocate(descriptor: int, file_bytes: int) -> bool:
    """Allocate by the system call itself: the C library's posix_fallocate writes zeros where that isn't supported."""
    if not sys.platform.startswith("linux") or file_bytes == 0:
        return False
    fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    while fallocate(descriptor, 0, 0, file_bytes) != 0:
        code = ctypes.get_errno()
        if code == errno.EINTR:
            continue
        if code in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
            return False
        raise OSError(code, os.strerror(code))
    return True


def sync_tree(directory: str | os.PathLike[str]) -> None:
    """Make the content and the names of the files in a directory durable, and of those below it."""
    for folder, _, names in os.walk(directory):
        for path in (os.path.join(folder, name) for name in names):
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
        sync_directory(folder)


def sync_directory(directory: str | os.PathLike[str]) -> None:
    """Make the names in a directory durable, where its file system offers that."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.EACCES):  # no such thing on this file system
            raise
    finally:
        os.close(descriptor)
