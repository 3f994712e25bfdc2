"""The protocols of the data part, datasets in memory, and fingerprints: hashes of what a data set's files hold.

By its fingerprint a resumed run knows its data again. Neither where the files are nor when they were written is part of
it: a folder that was copied or touched has the same.
"""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from .._atomic import replace_file
from .._env import cache_dir
from .._regular_file import open_regular, read_regular
from ..errors import ShapeError

Item = TypeVar("Item")
ItemCo = TypeVar("ItemCo", covariant=True)
ItemContra = TypeVar("ItemContra", contravariant=True)
BatchCo = TypeVar("BatchCo", covariant=True)


class Dataset(Protocol[ItemCo]):
    """Items that are reached by their index, 0 to `len - 1`; reading one changes nothing."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> ItemCo: ...


class Batcher(Protocol[ItemContra, BatchCo]):
    """Makes one batch of several items."""

    def batch(self, items: Sequence[ItemContra], device: torch.device) -> BatchCo:
        """Collate `items`, in their order, on `device`."""
        ...


def name_of_data(dataset: Any) -> str:
    """The class of the data set that items come from, below those that only choose or change items, where it is the
    user's own; else `the data`, as classes of burnlike do not stand in a config.
    """
    while type(dataset).__module__.startswith("burnlike."):
        dataset = getattr(dataset, "dataset", getattr(dataset, "_dataset", None))
        if dataset is None:
            return "the data"
    return type(dataset).__name__


def kind_of_batches(batcher: Any) -> str:
    """The batches that a batcher makes, in words: `padded texts`."""
    if batcher is None:
        return "stacked items"
    return getattr(batcher, "makes", None) or f"made by {type(batcher).__name__}"


class InMemDataset(list[Item]):
    """Items held in a list; Burn's name for the simplest dataset."""

    draws = False


class TensorDataset:
    """Items are tuples of the rows of several tensors; a batch is one `index_select` of each.

    Example:
        >>> from burnlike.data import DataLoader
        >>> data = TensorDataset(torch.arange(6).reshape(3, 2), torch.tensor([7, 8, 9]))
        >>> [targets.tolist() for _, targets in DataLoader(data, batch_size=2)]
        [[7, 8], [9]]
    """

    draws = False

    def __init__(self, *tensors: Tensor, fingerprint: str | None = None) -> None:
        """Take tensors; nothing is copied.

        Args:
            tensors: `[n, ...]` each.
            fingerprint: a hash of the data, by which a loader's saved position knows it again.

        Raises:
            ShapeError: there is none, or they have different numbers of rows.
        """
        shapes = [list(tensor.shape) for tensor in tensors]
        if not all(shapes) or len({shape[0] for shape in shapes}) != 1:
            raise ShapeError(f"TensorDataset: expected tensors with the same number of rows, got {shapes}")
        self.tensors = tensors
        self.fingerprint = fingerprint

    @property
    def targets(self) -> Tensor | None:
        """The classes of the items, where the last tensor has one for each."""
        last = self.tensors[-1]
        return last if len(self.tensors) > 1 and last.dim() == 1 and not last.is_floating_point() else None

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, index: int, /) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def batch(self, indices: Sequence[int], device: torch.device) -> tuple[Any, ...]:
        """The rows of these indices, of each tensor, on `device`."""
        rows = torch.tensor(indices)
        return tuple(it.index_select(0, rows.to(it.device)).to(device, non_blocking=True) for it in self.tensors)


Status = tuple[str, int, int, int, int]

Fingerprint = str | Callable[[], str | None] | None
"""The hash of a data set, what computes it, or None."""

_REMEMBERED_FROM_BYTES = 64 * 2**20
"""Less than this is hashed faster than anyone notices."""

_MOST_REMEMBERED = 256

_SETTLED_S = 2.0
"""Two changes of a file within this time may leave the same time in a coarse file system."""

_MOST_BYTES = 2**20


class FileFingerprint:
    """The hash of the content of several files, computed when it is first asked for.

    The hash of many bytes is kept in the user's cache directory, by the paths, sizes and times of the files: one that
    changes is read again.
    """

    def __init__(self, files: Mapping[str, Path], *facts: Any) -> None:
        """Take files; nothing is read.

        Args:
            files: by names that stay when the data moves, such as those relative to its folder.
            facts: what else belongs to the data, such as options, as plain values.
        """
        self._files = dict(files)
        self._facts = repr(facts)
        self._value: str | None = None

    def __call__(self) -> str:
        """The hash, as text. A file that can't be read counts as such."""
        if self._value is None:
            content = _remembered(list(self._files.values()))
            self._value = hashlib.sha256(repr((self._facts, list(self._files), content)).encode()).hexdigest()
        return self._value


class Fingerprinted:
    """Has a `fingerprint`: the hash of its data as text, which may be computed when it is asked for; or None."""

    _fingerprint: Fingerprint = None

    @property
    def fingerprint(self) -> Any:
        """A hash of the data, by which a loader's saved position knows it again."""
        fingerprint = self._fingerprint
        return fingerprint() if callable(fingerprint) else fingerprint

    @fingerprint.setter
    def fingerprint(self, value: Fingerprint) -> None:
        self._fingerprint = value


def _remembered(files: list[Path]) -> str:
    """The hash of the content of files; from the cache, where they have not changed since it was computed."""
    before = statuses(files)
    if sum(it[1] for it in before) < _REMEMBERED_FROM_BYTES:
        return _hash_of(files)
    cache = cache_dir() / "fingerprints.json"
    key = hashlib.sha256(repr(before).encode()).hexdigest()
    digests = _read_cache(cache)
    # The key has sizes and times: what was hashed of a file that changed since is not found.
    if key not in digests:
        digests[key] = _hash_of(files)
        # A file that changes twice within a tick of its file system has the same time.
        if is_settled(files, before):
            with contextlib.suppress(OSError):  # a cache that can't be written costs time only
                cache.parent.mkdir(parents=True, exist_ok=True)
                replace_file(cache, json.dumps(dict([*digests.items()][-_MOST_REMEMBERED:])).encode())
    return digests[key]


def is_settled(files: list[Path], before: list[Status]) -> bool:
    """True if files are as they were, and will be seen to change if they do."""
    latest = max(max(it[2:4]) for it in before) / 1e9
    return statuses(files) == before and time.time() - latest > _SETTLED_S


def statuses(files: list[Path]) -> list[Status]:
    """The path, size, both times and the inode of each file; all -1 of one that is not there."""
    status = []
    for file in files:
        try:
            facts = os.stat(file)
            status.append((str(file.absolute()), facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino))
        except OSError:
            status.append((str(file.absolute()), -1, -1, -1, -1))
    return status


def _hash_of(files: list[Path]) -> str:
    total = hashlib.sha256()
    with ThreadPoolExecutor() as pool:  # hashing releases the interpreter
        for digest in pool.map(_digest, files):
            total.update(digest)
    return total.hexdigest()


def _digest(file: Path) -> bytes:
    try:
        with open_regular(file) as opened:
            return hashlib.file_digest(opened, "sha256").digest()  # pyright: ignore[reportArgumentType] - typeshed's
    except OSError:
        # A training says by itself which file can't be read, with its place.
        return hashlib.sha256(b"unreadable").digest()


def _read_cache(path: Path) -> dict[str, str]:
    with contextlib.suppress(OSError, ValueError, RecursionError):
        digests = json.loads(read_regular(path, _MOST_BYTES))
        if isinstance(digests, dict):
            return {name: value for name, value in digests.items() if isinstance(value, str)}
    return {}
