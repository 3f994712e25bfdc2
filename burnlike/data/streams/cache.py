"""A cache, in the user's cache directory, of results that are computed once for a file."""

import contextlib
import fcntl
import hashlib
import json
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from ..._atomic import AtomicDirectory, remove_directory, replace_file
from ..._env import cache_dir
from ..._regular_file import open_regular, read_regular
from ...errors import DataError
from ...ops import crc32
from ..dataset import is_settled, statuses

_SUMS = "sums.json"
_SHORT, _MOST_BYTES, _BLOCK_BYTES = 200, 1 << 16, 1 << 20


def remembered(path: Path, compute: Callable[[], str]) -> str:
    """A short text about a file's content; kept for as long as the file has the same size and times."""
    before = statuses([path])
    place = _place("known", before[0])
    with contextlib.suppress(OSError, ValueError):
        value, check = read_regular(place, _SHORT).decode().split()
        if check == _check_of(value):
            return value
    value = compute()
    if is_settled([path], before):
        with contextlib.suppress(OSError):  # a cache that can't be written costs time only
            place.parent.mkdir(parents=True, exist_ok=True)
            replace_file(place, f"{value} {_check_of(value)}".encode())
    return value


def _check_of(value: str) -> str:
    return f"{zlib.crc32(value.encode()):08x}"


def made(what: str, facts: object, make: Callable[[Path], None], *, waits: bool = True) -> Path | None:
    """The directory that `make` fills, whole or not at all; one that was made before for the same facts is taken.

    Its files are compared with their checksums; what is damaged is made anew, which a line on stderr says. Of several
    processes that ask at once, one makes it and the others wait, or get None.

    Raises:
        DataError: the cache can't be written.
    """
    place = _place(what, facts)
    if _is_whole(place):
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with _alone(place.with_suffix(".lock"), waits=waits) as is_mine:
            if not is_mine:
                return None
            if not _is_whole(place):
                if place.exists():
                    print(f"{place} is damaged; it is made anew", file=sys.stderr, flush=True)
                    remove_directory(place)
                with AtomicDirectory(place) as directory:
                    make(directory.path)
                    sums = {it.name: _sum_of(it) for it in sorted(directory.path.iterdir())}
                    replace_file(directory.path / _SUMS, json.dumps(sums).encode())
                    with contextlib.suppress(FileExistsError):  # where there are no locks: another was faster
                        directory.commit()
    except OSError as error:
        raise DataError(
            f"{cache_dir()} can't be written: {error.strerror}; what is made of the data is kept there: make room, or"
            " set XDG_CACHE_HOME to another place"
        ) from error
    return place


def _is_whole(place: Path) -> bool:
    """True if a directory has the files that its list of checksums names, as they were made."""
    try:
        sums = json.loads(read_regular(place / _SUMS, _MOST_BYTES))
        return isinstance(sums, dict) and all(_sum_of(place / name) == it for name, it in sums.items())
    except (OSError, ValueError, RecursionError):
        return False


def _sum_of(file: Path) -> list[int]:
    """The size and the CRC-32 of a file."""
    size = checksum = 0
    with open_regular(file) as opened:
        while block := opened.read(_BLOCK_BYTES):
            size, checksum = size + len(block), crc32(memoryview(block), checksum)
    return [size, checksum]


@contextlib.contextmanager
def _alone(lock: Path, *, waits: bool) -> Iterator[bool]:
    """Take the lock; True if no other process has it."""
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
