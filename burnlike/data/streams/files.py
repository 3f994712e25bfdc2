"""Shards: the files of a stream, what they hold, and reading them by position with few open at a time."""

import hashlib
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from ..._regular_file import digest_of, regular_size
from ...errors import DataError
from ..sources.splits import existing, visible
from .cache import made, remembered

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
_REMEDIES = {".zst": "zstd -d", ".bz2": "bunzip2", ".xz": "unxz", ".gz": "gunzip"}


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
        """Directory of the cache with what `make` computes of the content; see `cache.made`.

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
        files = [it for it in files if it.suffix != ".idx"]  # beside a .bin
        if not files:
            raise DataError(f"{field}: the directory {root} has no file that matches '{pattern}'")
    else:
        files = [root]
    shards = [_shard(it, it.relative_to(root).as_posix() if it != root else it.name, field) for it in files]
    kinds = {it.kind: it.path for it in shards}
    if "tokens" in kinds and len(kinds) > 1:
        one, other = kinds.pop("tokens"), next(iter(kinds.values()))
        raise DataError(f"{field}: {root} has tokens ({one.name}) and rows ({other.name}); set `pattern` to one kind")
    return shards


def _shard(path: Path, name: str, field: str) -> Shard:
    kind = next((it for end, it in KINDS.items() if path.name.lower().endswith(end)), None)
    if kind is None:
        remedy = _REMEDIES.get(path.suffix.lower())
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
                descriptor = self._opened(path)
            else:
                self._open.move_to_end(path)
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

    def _opened(self, path: Path) -> int:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if len(self._open) >= _MOST_OPEN:
            os.close(self._open.popitem(last=False)[1])
        self._open[path] = descriptor
        return descriptor


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
            names = [it.name for it in self._shards]
            total = hashlib.sha256(repr((self._facts, names, contents)).encode()).hexdigest()
            self._value = f"{total}-{''.join(it[:_DIGITS] for it in contents)}"
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
