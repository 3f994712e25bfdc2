"""What is computed of a file once and kept in the user's cache directory."""

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from ..._atomic import AtomicDirectory, replace_file
from ..._env import cache_dir
from ..._regular_file import read_regular
from ...errors import DataError
from ..dataset import is_settled, statuses

_SHORT = 200


def remembered(path: Path, compute: Callable[[], str]) -> str:
    """A short text about a file's content; kept for as long as the file has the same size and times."""
    before = statuses([path])
    place = _place("known", before[0])
    with contextlib.suppress(OSError):
        return read_regular(place, _SHORT).decode()
    value = compute()
    if is_settled([path], before):
        with contextlib.suppress(OSError):  # a cache that can't be written costs time only
            place.parent.mkdir(parents=True, exist_ok=True)
            replace_file(place, value.encode())
    return value


def made(what: str, facts: object, make: Callable[[Path], None], *, waits: bool = True) -> Path | None:
    """The directory that `make` fills, whole or not at all; one that was made before for the same facts is taken.

    Of several processes that ask at once, one makes it and the others wait, or get None.

    Raises:
        DataError: the cache can't be written.
    """
    place = _place(what, facts)
    if place.is_dir():
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with _alone(place.with_suffix(".lock"), waits=waits) as is_mine:
            if not is_mine:
                return None
            if not place.is_dir():
                with AtomicDirectory(place) as directory:
                    make(directory.path)
                    with contextlib.suppress(FileExistsError):  # where there are no locks: another was faster
                        directory.commit()
    except OSError as error:
        raise DataError(
            f"{cache_dir()} can't be written: {error.strerror}; what is made of the data is kept there: make room, or"
            " set XDG_CACHE_HOME to another place"
        ) from error
    return place


@contextlib.contextmanager
def _alone(lock: Path, *, waits: bool) -> Iterator[bool]:
    """Whether no other process has the lock."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        is_mine = True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        except BlockingIOError:
            is_mine = False
        except OSError:
            pass  # some network file systems have no locks: then both make it
        yield is_mine
    finally:
        os.close(descriptor)


def _place(what: str, facts: object) -> Path:
    key = hashlib.sha256(repr(facts).encode()).hexdigest()
    return cache_dir() / "streams" / what / key[:2] / key[:40]
