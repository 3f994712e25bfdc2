"""Shards: the files of a stream, what they hold, and reading them by position with few open at a time; and a
cache, in the user's cache directory, of results that are computed once for a file."""

import contextlib
import fcntl
import hashlib
import json
import os
import sys
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from ..._atomic import AtomicDirectory, remove_directory, replace_file
from ..._env import cache_dir
from ..._regular_file import digest_of, open_regular, read_regular, regular_size
from ...errors import DataError
from ...ops import crc32
from ..dataset import is_settled, statuses
from ..sources.rows import UNPACKERS
from ..sources.splits import existing, visible

_SUMS = "sums.json"
_SHORT, _MOST_BYTES, _BLOCK_BYTES = 200, 1 << 16, 1 << 20


def remembered(path: Path, compute: Callable[[], str]) -> str:
    """A short text about a file's content; kept for as long as the file has the same size and times."""
    before = statuses([path])
    place = _place("known", before[0])
    with contextlib.suppress(OSError, ValueError):
        # With a checksum: after a loss of power a file may have its name and no content.
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
            # Another process may have made it while this one waited.
            if not _is_whole(place):
                if place.exists():
                    print(f"{place} is damaged; it is made anew", file=sys.stderr, flush=True)
                    remove_directory(place)
                with AtomicDirectory(place) as directory:
                    make(directory.path)
                    sums = {path.name: _sum_of(path) for path in sorted(directory.path.iterdir())}
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
        return isinstance(sums, dict) and all(_sum_of(place / name) == value for name, value in sums.items())
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


_MOST_OPEN = 64
_NO_DATA = (".", "_")
"""How names begin of files that are no data: hidden ones, `_SUCCESS` and the like."""
KINDS = {
    ".jsonl": "rows",
    ".ndjson": "rows",
    ".jsonl.gz": "rows",
    ".parquet": "parquet",
    ".npy": "tokens",
    ".bin": "tokens",
}
_DIGITS = 8
_SHOWN = 5


class Shard(NamedTuple):
    """A file of a stream.

    Attributes:
        name: below its source, which stays when the data moves.
        status: size and time, by which a change while it is used is seen.
    """

    path: Path
    name: str
    kind: str
    status: tuple[int, int]

    def content(self) -> str:
        """The hash of the content; kept for as long as the file has the same size and times."""
        return remembered(self.path, lambda: _hash_of(self.path))

    def made(self, what: str, facts: object, make: Callable[[Path], None], *, waits: bool = True) -> Path | None:
        """Directory of the cache with what `make` computes of the content; see `made`.

        A DataError says that the file changed meanwhile, and nothing is kept.
        """
        content = self.content()

        def make_and_compare(directory: Path) -> None:
            make(directory)
            self.expect_unchanged()
            if _hash_of(self.path) != content:  # its times can be as before where another program has set them
                raise _changed(self.path)

        return made(what, (content, facts), make_and_compare, waits=waits)

    def expect_unchanged(self) -> None:
        """See `expect_unchanged`."""
        expect_unchanged(self.path, self.status)


def expect_unchanged(path: Path, status: tuple[int, int]) -> None:
    """DataError if a file is gone or has not the size and time `status` any more; asked after each look into it."""
    try:
        path_status = os.stat(path)
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}; put it back to go on") from error
    if (path_status.st_size, path_status.st_mtime_ns) != status:
        raise _changed(path)


def _changed(path: Path) -> DataError:
    return DataError(f"{path} has changed since it was first read; put it back to go on, or begin a new run")


def shards_of(path: str, pattern: str, field: str) -> list[Shard]:
    """The shards of a file or a directory, by name; a DataError if there are none, or one is of no known kind."""
    root = existing(path, field, "any")
    if root.is_dir():
        files = [it for it in visible(root, pattern, hidden=_NO_DATA) if not it.is_dir()]
        files = [file for file in files if file.suffix != ".idx"]  # beside a .bin
        if not files:
            raise DataError(f"{field}: the directory {root} has no file that matches '{pattern}'")
    else:
        files = [root]
    shards = [_shard(file, file.relative_to(root).as_posix() if file != root else file.name, field) for file in files]
    kinds = {shard.kind: shard.path for shard in shards}
    if "tokens" in kinds and len(kinds) > 1:
        one, other = kinds.pop("tokens"), next(iter(kinds.values()))
        raise DataError(f"{field}: {root} has tokens ({one.name}) and rows ({other.name}); set `pattern` to one kind")
    return shards


def _shard(path: Path, name: str, field: str) -> Shard:
    kind = next((it for end, it in KINDS.items() if path.name.lower().endswith(end)), None)
    if kind is None:
        remedy = UNPACKERS.get(path.suffix.lower())
        kinds = "expected .jsonl, .jsonl.gz, .parquet, .npy or .bin"
        raise DataError(
            f"{field}: {path}: a compressed file has no places to go to; unpack it first: {remedy} '{path}'"
            if remedy
            else f"{field}: {path}: {kinds}; choose the files by `pattern`, such as '**/*.jsonl'"
        )
    try:
        regular_size(path)
        status = os.stat(path)
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}") from error
    return Shard(path, name, kind, (status.st_size, status.st_mtime_ns))


def _hash_of(path: Path) -> str:
    try:
        return digest_of(path)[1]
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}") from error


class OpenFiles:
    """Reads files by position, of which a few stay open; each process that gets a copy opens its own."""

    def __init__(self) -> None:
        self._open: OrderedDict[Path, int] = OrderedDict()

    def __reduce__(self) -> Any:
        return OpenFiles, ()

    def __del__(self, close: Any = os.close) -> None:  # at the end of a program the module may be gone
        for descriptor in self._open.values():
            close(descriptor)

    def read(self, path: Path, first: int, count: int, status: tuple[int, int] | None = None) -> bytes:
        """So many bytes from the place `first`.

        Raises:
            DataError: the file can't be read, ends before, or has not the size and time of `status` any more.
        """
        try:
            descriptor = self._open.get(path)
            if descriptor is None:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                if len(self._open) >= _MOST_OPEN:
                    os.close(self._open.popitem(last=False)[1])
                self._open[path] = descriptor
            else:
                # The file that was used longest ago is the one to be closed.
                self._open.move_to_end(path)
            # By position: processes that were forked share the place of a descriptor.
            data = os.pread(descriptor, count, first)
        except OSError as error:
            raise DataError(f"{path} can't be read: {error.strerror}; put it back to go on") from error
        if status is not None:
            expect_unchanged(path, status)
        if len(data) < count:
            raise DataError(
                f"{path} ends at byte {first + len(data)}, and had {first + count} at least: it has changed"
            )
        return data


class Known:
    """The fingerprint of a stream: a hash of all, and the beginning of that of each shard."""

    def __init__(self, shards: Sequence[Shard], *facts: Any) -> None:
        """Take shards; nothing is read until the fingerprint is asked for.

        Args:
            shards: in their order.
            facts: what else belongs to the data, such as options, as plain values.
        """
        self._shards = shards
        self._facts = repr(facts)
        self._value: str | None = None

    def __call__(self) -> str:
        if self._value is None:
            with ThreadPoolExecutor() as pool:  # hashing releases the interpreter
                contents = list(pool.map(Shard.content, self._shards))
            names = [shard.name for shard in self._shards]
            total = hashlib.sha256(repr((self._facts, names, contents)).encode()).hexdigest()
            self._value = f"{total}-{''.join(content[:_DIGITS] for content in contents)}"
        return self._value

    def change(self, before: object) -> str:
        """The change since the fingerprint was `before`, for the end of a sentence."""
        old, new = (str(it).partition("-")[2] for it in (before, self()))
        if len(old) != len(new):
            return f": there were {len(old) // _DIGITS} shards, and there are {len(new) // _DIGITS}"
        pieces = zip(self._shards, _digits(old), _digits(new), strict=True)
        changed = [str(shard.path) for shard, was, now in pieces if was != now]
        return f": changed are {', '.join(changed[:_SHOWN])}" if changed else ": a name or an option has changed"


def _digits(text: str) -> list[str]:
    return [text[place : place + _DIGITS] for place in range(0, len(text), _DIGITS)]
