"""Replaces a record in several files: after a crash the old set or the new one is there, never a mix.

The names of index and single file are fixed, and one of the two decides what counts (see `files/reading.py`). So the
new files get names that nothing has, and a single step makes them count: the rename of the index or of the single file,
or the removal of the single file once the index is in place. Only then are the old files removed. What a killed save
left is removed by the next one.
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ..._atomic import AtomicFile, make_directories, remove_abandoned_files, sync_directory
from ..._regular_file import open_regular
from ...errors import RecordError, RecordIOError
from ..files.reading import INDEX_SUFFIX, index_text, listed_names, shard_name, shard_pattern
from ..formats import DEFAULT_EXTENSION, Outline
from .writing import write_error

# Writes one file, all or nothing: its path, what is in it, and a file whose permissions it gets.
Write = Callable[[str, Outline, str | None], object]


def replace_set(single: str, shards: Sequence[Outline], write: Write) -> str:
    """Let a file for each shard take the place of what is there; the path of the `single` file or of the index."""
    directory = _Directory(single)
    try:
        make_directories(directory.path)
        with _locked(directory.path):
            directory.remove_stale()
            return directory.replace_by_one(shards[0], write) if len(shards) == 1 else directory.replace(shards, write)
    except RecordError:
        raise
    except OSError as error:
        total = sum(entry.nbytes for shard in shards for entry in shard.entries.values())
        raise write_error(single, total, error) from error


class _Directory:
    """The files of one set: the paths of their directory, of the single file and of the index."""

    def __init__(self, single: str) -> None:
        self.single = os.path.abspath(single)
        self.index = self.single + INDEX_SUFFIX
        self.path, name = os.path.split(self.single)
        self._stem = name.removesuffix(DEFAULT_EXTENSION)
        self._pattern = shard_pattern(self._stem)

    def replace_by_one(self, shard: Outline, write: Write) -> str:
        listed = self._listed()
        write(self.single, shard, self._example())
        if self._unlink(self.index):
            sync_directory(self.path)  # before it names files that are gone
        self._remove_all_but(keep=(), also=listed)
        return self.single

    def replace(self, shards: Sequence[Outline], write: Write) -> str:
        listed, like, taken = self._listed(), self._example(), set(os.listdir(self.path))
        tags = ("", *map(str, range(1, len(taken) + 1)))
        numbers = range(1, len(shards) + 1)
        sets = ([shard_name(self._stem, tag, number, len(shards)) for number in numbers] for tag in tags)
        names = next(filter(taken.isdisjoint, sets))
        try:
            for name, shard in zip(names, shards, strict=True):
                write(os.path.join(self.path, name), shard, like)
            with AtomicFile(self.index, like) as file:
                with open(file.descriptor, "wb", closefd=False) as sink:
                    sink.write(index_text(shards, names))
                file.commit()
            if self._unlink(self.single):
                sync_directory(self.path)
        except BaseException:
            self._give_up(names)
            raise
        self._remove_all_but(names, listed)
        return self.index

    def remove_stale(self) -> None:
        """Remove what saves left that were killed; nothing, while the index that says what counts is damaged."""
        fixed = (os.path.basename(self.single), os.path.basename(self.index))

        def belongs(name: str) -> bool:
            is_cut_off = len(name) == 100 and name.startswith(self._stem)
            return name in fixed or is_cut_off or self._pattern.fullmatch(name) is not None

        remove_abandoned_files(self.path, belongs)
        if (listed := self._listed()) is not None:
            self._remove_all_but(listed)

    def _listed(self, index: str | None = None) -> set[str] | None:
        """The files that the index, or another one, speaks of; None if it is damaged."""
        try:
            with open_regular(index or self.index) as file:
                return listed_names(file.read())
        except FileNotFoundError:
            return set()

    def _example(self) -> str | None:
        candidates = [self.single, *(os.path.join(self.path, name) for name in sorted(self._listed() or ()))]
        return next(filter(os.path.isfile, candidates), None)

    def _give_up(self, names: Sequence[str]) -> None:
        """Remove files that were written, unless they count by now: an error of a later step came too late then."""
        with contextlib.suppress(OSError):
            if set(names) <= (self._listed() or set()):
                if not os.path.lexists(self.single):
                    return
                os.unlink(self.index)
                sync_directory(self.path)
            for name in names:
                self._unlink(os.path.join(self.path, name))

    def _remove_all_but(self, keep: Sequence[str] | set[str], also: set[str] | None = None) -> None:
        """Remove the shards that are there, and `also`, but not `keep` and the single file, nor those of another set:
        one called `model-100` has names that could be of `model`.
        """
        with contextlib.suppress(OSError):  # what stays is removed by the next save
            names = os.listdir(self.path)
            stale = {name for name in names if self._pattern.fullmatch(name)} | (also or set())
            stale -= {*keep, os.path.basename(self.single)}
            for name in [name for name in names if name.endswith(DEFAULT_EXTENSION + INDEX_SUFFIX)] if stale else ():
                path = os.path.join(self.path, name)
                if (listed := set() if path == self.index else self._listed(path)) is None:
                    return  # nothing tells what belongs to it
                stale -= listed
            for name in stale:
                self._unlink(os.path.join(self.path, name))

    @staticmethod
    def _unlink(path: str) -> bool:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return False
        return True


@contextmanager
def _locked(directory: str) -> Iterator[None]:
    """Let no other save of a set go on in this directory: each would take the other's files for stale ones."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno == errno.EWOULDBLOCK:
                raise RecordIOError(
                    f"{directory}: not saved, another save into this directory is under way; wait for it, or choose"
                    " another directory"
                ) from error
            # some network file systems have no locks
        yield
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # a child process that was forked meanwhile has the lock, too
        os.close(descriptor)
