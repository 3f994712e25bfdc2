"""Datasets whose items are those of several datasets, or several items of one."""

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

from ...errors import ArgumentError
from ..dataset import Dataset

Item = TypeVar("Item")


class ComposedDataset(Generic[Item]):
    """The items of several datasets, one after the other.

    Example:
        >>> list(ComposedDataset(["ab", "c"]))
        ['a', 'b', 'c']
    """

    def __init__(self, datasets: Sequence[Dataset[Item]]) -> None:
        self.datasets = list(datasets)
        self._ends = [*accumulate(map(len, self.datasets))]

    @property
    def draws(self) -> bool:
        return any(getattr(it, "draws", True) for it in self.datasets)

    @property
    def fingerprint(self) -> Any:
        """A hash of the datasets'; None where one of them has none."""
        own = [getattr(it, "fingerprint", None) for it in self.datasets]
        return hashlib.sha256(" ".join(map(str, own)).encode()).hexdigest() if all(own) else None

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int, /) -> Item:
        if not 0 <= index < len(self):
            raise IndexError(f"item {index} of {len(self)}")
        place = bisect_right(self._ends, index)
        return self.datasets[place][index - (self._ends[place - 1] if place else 0)]


class WindowsDataset(Generic[Item]):
    """Lists of `size` items that stand side by side; a window begins at each item, or at every `stride`-th.

    Example:
        >>> list(WindowsDataset("abcd", 3))
        [['a', 'b', 'c'], ['b', 'c', 'd']]
    """

    def __init__(self, dataset: Dataset[Item], size: int, stride: int = 1) -> None:
        """Make the windows; windows that would reach past the end are left out.

        Raises:
            ArgumentError: a number is not positive.
        """
        if size < 1 or stride < 1:
            raise ArgumentError(f"WindowsDataset: expected size and stride >= 1, got {size} and {stride}")
        self.dataset = dataset
        self.size = size
        self.stride = stride

    @property
    def draws(self) -> bool:
        return getattr(self.dataset, "draws", True)

    @property
    def fingerprint(self) -> Any:
        """A hash of the dataset's and of the windows; None where the dataset has none."""
        own = getattr(self.dataset, "fingerprint", None)
        return own and hashlib.sha256(f"{own} {self.size} {self.stride}".encode()).hexdigest()

    def __len__(self) -> int:
        return max(0, (len(self.dataset) - self.size) // self.stride + 1)

    def __getitem__(self, index: int, /) -> list[Item]:
        if not 0 <= index < len(self):
            raise IndexError(f"window {index} of {len(self)}")
        start = index * self.stride
        return [self.dataset[place] for place in range(start, start + self.size)]
