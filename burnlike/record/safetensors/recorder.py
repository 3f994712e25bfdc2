"""SafetensorsRecorder: records as plain safetensors files, converted while they are written.

A record in several files is replaced as a whole: after a crash the old set or the new one is there, never a mix. The
names of index and single file are fixed, and one of the two decides what counts (see `files/reading.py`). So the
new files get names that nothing has, and a single step makes them count: the rename of the index or of the single file,
or the removal of the single file once the index is in place. Only then are the old files removed. What a killed save
left is removed by the next one.
"""

import errno
import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal

from torch import Tensor

from ..._atomic import AtomicFile, make_directories, remove_abandoned_files, sync_directory
from ..._regular_file import open_regular
from ...errors import ArgumentError, RecordError, RecordIOError
from ..bytes.budget import Budget
from ..bytes.source import FileSource
from ..files.reading import (
    INDEX_SUFFIX,
    divide,
    find_record,
    index_text,
    listed_names,
    read_sharded,
    read_source,
    shard_name,
    shard_pattern,
    single_path,
)
from ..formats import DEFAULT_EXTENSION, Format, Outline
from ..precision import PrecisionRule
from ..record import Record, record_of
from ..recorder import FileRecorder, with_extension
from ..saving.writing import write_error, write_file
from .format import SAFETENSORS, SAFETENSORS_ALL_NAMES

# Writes one file, all or nothing: its path, what is in it, and a file whose permissions it gets.
Write = Callable[[str, Outline, str | None], object]


def replace_set(single: str, shards: Sequence[Outline], write: Write) -> str:
    """Let a file for each shard take the place of what is there; the path of the `single` file or of the index."""
    directory = _Directory(single)
    is_new = not os.path.lexists(directory.path)
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
    finally:
        if is_new:
            with suppress(OSError):  # unless there is something in it, as after a save that succeeded
                os.rmdir(directory.path)


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
        with suppress(OSError):
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
        with suppress(OSError):  # what stays is removed by the next save
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
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # a child process that was forked meanwhile has the lock, too
        os.close(descriptor)


class SafetensorsRecorder(FileRecorder):
    """Writes and reads records as safetensors files, which every safetensors reader opens.

    Ids, aliases of tied tensors and plain values are JSON in the file's metadata. Files of other programs load too.

    Args:
        precision: types to store in; None stores each tensor as it is.
        shard_bytes: a record whose tensors take more is divided among several files, of at most so much each (a larger
            tensor is alone), with an index beside them as Hugging Face lays it out. Then `save` takes a directory
            (made if it is missing), in which it writes `model.safetensors` or `model.safetensors.index.json`, or the
            path of either; and it replaces what is there, single file or set of files, as a whole or not at all.
        ties: how often a tied tensor is stored: "once", or under "all" its names, for readers that know no ties, as
            Burn's SafetensorsStore. It is one tensor again when burnlike reads the file.

    Raises:
        ArgumentError: shard_bytes is not a positive whole number, or there is one with ties="all".

    Example:
        >>> import tempfile, torch
        >>> from burnlike.record import BFloat16Precision, Record, SafetensorsRecorder
        >>> record = Record(tensors={"weight": torch.ones(2, 3)}, values={"step": 7})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = SafetensorsRecorder(BFloat16Precision).save(record, f"{folder}/model")
        ...     loaded = SafetensorsRecorder().load(f"{folder}/model.safetensors")
        >>> loaded.tensors["weight"].dtype, loaded.values
        (torch.bfloat16, {'step': 7})
    """

    format: Format = SAFETENSORS

    def __init__(
        self,
        precision: PrecisionRule | None = None,
        shard_bytes: int | None = None,
        ties: Literal["once", "all"] = "once",
    ) -> None:
        super().__init__(precision)
        if ties not in ("once", "all") or (ties == "all" and shard_bytes is not None):
            raise ArgumentError(f"ties: expected 'once', or without shard_bytes 'all', got {ties!r}")
        if ties == "all":
            self.format = SAFETENSORS_ALL_NAMES
        if shard_bytes is not None and (type(shard_bytes) is not int or shard_bytes < 1):
            raise ArgumentError(
                f"shard_bytes: expected a positive whole number of bytes, as 5_000_000_000, got {shard_bytes!r}"
            )
        self.shard_bytes = shard_bytes

    def load(self, path: str | os.PathLike[str], layout: Any = None) -> Record:
        """Open the record at `path`; its tensors are read when they are asked for.

        Args:
            path: the file, whose name may lack the extension; or, of a record that is divided among files, the name
                that its single file would have, its index, or its directory.

        Raises:
            RecordIOError: a file can't be read.
            RecordFormatError: it is damaged, truncated, or no safetensors file; or the files are not of one set.
        """
        place = find_record(path if os.path.exists(path) else with_extension(path, self.format.extension))
        if not place.endswith(INDEX_SUFFIX):
            return super().load(place, layout)

        def read(shard: str, budget: Budget) -> Outline:
            return read_source(FileSource(shard, budget), self.format, ends=False)[1]

        return record_of(*read_sharded(place, read))

    def _target(self, path: str | os.PathLike[str]) -> str:
        return super()._target(path) if self.shard_bytes is None else single_path(path)

    def _save(self, outline: Outline, tensors: Mapping[str, Tensor], target: str) -> str:
        if self.shard_bytes is None:
            return super()._save(outline, tensors, target)

        def write(path: str, shard: Outline, like: str | None) -> None:
            write_file(path, self.format, shard, tensors, self._allow_overflow, like)

        return replace_set(target, divide(outline, self.shard_bytes), write)
