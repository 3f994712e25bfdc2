"""Datasets that have some of the items of another one, in an order of their own."""

import hashlib
from collections.abc import Sequence
from typing import Any, Generic, Self, TypeVar

import torch

from ...errors import ArgumentError
from ..dataset import Dataset

Item = TypeVar("Item")


class SelectionDataset(Generic[Item]):
    """The items at some indices, in their order; an index may come several times.

    Example:
        >>> list(SelectionDataset("abc", [2, 0, 0]))
        ['c', 'a', 'a']
    """

    def __init__(self, dataset: Dataset[Item], indices: Sequence[int]) -> None:
        """Select items.

        Raises:
            ArgumentError: an index is outside of the dataset.
        """
        wrong = next((index for index in indices if not 0 <= index < len(dataset)), None)
        if wrong is not None:
            raise ArgumentError(
                f"{type(self).__name__}: expected indices in 0..{len(dataset) - 1}, those of the dataset, got {wrong}"
            )
        self.dataset = dataset
        self.indices = indices

    @property
    def draws(self) -> bool:
        return getattr(self.dataset, "draws", True)

    @property
    def fingerprint(self) -> Any:
        """A hash of the dataset's and of the indices; None where the dataset has none."""
        own = getattr(self.dataset, "fingerprint", None)
        return own and hashlib.sha256(f"{own} {[*self.indices]}".encode()).hexdigest()

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int, /) -> Item:
        if not 0 <= index < len(self):
            raise IndexError(f"item {index} of {len(self)}")
        return self.dataset[self.indices[index]]


class ShuffledDataset(SelectionDataset[Item]):
    """All items once, in an order drawn from a seed."""

    def __init__(self, dataset: Dataset[Item], seed: int) -> None:
        super().__init__(dataset, torch.randperm(len(dataset), generator=_generator(seed)).tolist())


class SamplerDataset(SelectionDataset[Item]):
    """Items drawn from a dataset by a seed.

    Example:
        >>> len(SamplerDataset(range(10), ratio=0.5, seed=1))
        5
    """

    def __init__(
        self,
        dataset: Dataset[Item],
        size: int | None = None,
        *,
        ratio: float | None = None,
        with_replacement: bool = False,
        seed: int = 0,
    ) -> None:
        """Draw items.

        Args:
            dataset: at least one item.
            size: how many are drawn; or
            ratio: how many times as many as there are.
            with_replacement: draw each from all of them, so that an item may come several times; otherwise every item
                comes once before any comes again.
            seed: of the draws.

        Raises:
            ArgumentError: both or neither of size and ratio are given, one is negative, or the dataset is empty.
        """
        if (size is None) == (ratio is None):
            raise ArgumentError("SamplerDataset: expected either size or ratio")
        wanted = size if size is not None else round(len(dataset) * (ratio or 0.0))
        if wanted < 0 or len(dataset) == 0:
            raise ArgumentError(
                f"SamplerDataset: expected a size >= 0 of at least one item, got {wanted} of {len(dataset)}"
            )
        generator, count = _generator(seed), len(dataset)
        if with_replacement:
            indices = torch.randint(count, (wanted,), generator=generator).tolist()
        else:
            passes = [torch.randperm(count, generator=generator) for _ in range(-(-wanted // count))]
            indices = torch.cat(passes)[:wanted].tolist() if passes else []
        super().__init__(dataset, indices)


class PartialDataset(SelectionDataset[Item]):
    """The items from one index to another.

    Example:
        >>> [list(part) for part in PartialDataset.split("abcde", 2)]
        [['a', 'b'], ['c', 'd', 'e']]
    """

    def __init__(self, dataset: Dataset[Item], start: int, end: int) -> None:
        """Take `dataset[start:end]`.

        Raises:
            ArgumentError: the range is not one of the dataset.
        """
        if not 0 <= start <= end <= len(dataset):
            raise ArgumentError(f"PartialDataset: expected 0 <= start <= end <= {len(dataset)}, got {start} and {end}")
        super().__init__(dataset, range(start, end))

    @classmethod
    def split(cls, dataset: Dataset[Item], parts: int) -> list[Self]:
        """So many parts of equal size; the last has the rest, too (Burn's split).

        Raises:
            ArgumentError: there are fewer items than parts.
        """
        if not 1 <= parts <= len(dataset):
            raise ArgumentError(f"PartialDataset: expected 1..{len(dataset)} parts, got {parts}")
        size = len(dataset) // parts
        ends = [*(size * number for number in range(1, parts)), len(dataset)]
        return [cls(dataset, start, end) for start, end in zip([0, *ends], ends, strict=False)]

    @classmethod
    def split_chunks(cls, dataset: Dataset[Item], chunk_size: int) -> list[Self]:
        """Parts of so many items; the last may have fewer.

        Raises:
            ArgumentError: the size is not positive.
        """
        if chunk_size < 1:
            raise ArgumentError(f"PartialDataset: expected chunk_size >= 1, got {chunk_size}")
        starts = range(0, len(dataset), chunk_size)
        return [cls(dataset, start, min(start + chunk_size, len(dataset))) for start in starts]


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
