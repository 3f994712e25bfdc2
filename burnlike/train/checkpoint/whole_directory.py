"""Directories that are there whole or not at all."""

import contextlib
import errno
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..._atomic_file import remove_unless_held, sync_directory
from ...errors import CheckpointError

_HIDDEN = re.compile(r"\.(?:partial|removed)-(.+?)(?:-[0-9a-f]{12})?", re.DOTALL)


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
