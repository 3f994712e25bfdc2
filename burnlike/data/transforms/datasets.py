"""Datasets made of others: a choice of their items, several of them, a function of each, batches of mixed images."""

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import default_collate

from ...errors import ArgumentError, ConfigError, DataError
from ..batching import to_device
from ..dataset import Dataset, kind_of_batches

Item = TypeVar("Item")
Mapped = TypeVar("Mapped")


class OfOne:
    """Has the items of one other dataset, some of them, or what is made of them, and says of them what that one says.

    Attributes:
        computes: whether items are what a function makes of them, which may draw random numbers.
    """

    dataset: Any
    computes = False

    @property
    def draws(self) -> bool:
        """True if an item depends on random numbers, or may."""
        return self.computes or getattr(self.dataset, "draws", True)

    @property
    def unreadable(self) -> Sequence[str]:
        """The rows that the other dataset has left out already."""
        return getattr(self.dataset, "unreadable", ())

    @property
    def fingerprint(self) -> Any:
        """A hash of the other dataset's and of what is done with its items; None where that has none."""
        fingerprint = getattr(self.dataset, "fingerprint", None)
        facts = self._facts()
        return hashlib.sha256(f"{fingerprint} {facts}".encode()).hexdigest() if fingerprint and facts else fingerprint

    def _facts(self) -> str:
        """The choice of items, as text, if the fingerprint is to depend on it."""
        return ""

    @property
    def targets(self) -> Any:
        """The classes of the items, where the other dataset says them."""
        return self._of_each("targets")

    @property
    def lengths(self) -> Any:
        """The lengths of the items, where the other dataset says them."""
        return self._of_each("lengths")

    def _of_each(self, name: str) -> Any:
        return getattr(self.dataset, name, None)

    def __len__(self) -> int:
        return len(self.dataset)


class SelectionDataset(OfOne, Generic[Item]):
    """The items at some indices, in their order; an index may come several times.

    Example:
        >>> list(SelectionDataset("abc", [2, 0, 0]))
        ['c', 'a', 'a']
        >>> list(SelectionDataset("abc", torch.tensor([True, False, True])))
        ['a', 'c']
    """

    def __init__(self, dataset: Dataset[Item], indices: Sequence[int]) -> None:
        """Raise ArgumentError for an index outside of the dataset.

        Args:
            dataset: the items.
            indices: those to take; or a truth value for each item, as a mask of torch and NumPy has.
        """
        if torch.as_tensor([*indices[:1]]).dtype == torch.bool:
            if len(indices) != len(dataset):
                raise ArgumentError(
                    f"Selection: expected a mask of {len(dataset)} truth values, one for each item of the dataset, got"
                    f" {len(indices)}"
                )
            indices = [index for index, is_taken in enumerate(indices) if is_taken]
        count = len(dataset)
        wrong = next((index for index in indices if not 0 <= index < count), None)
        if wrong is not None:
            raise ArgumentError(f"Selection: expected indices in 0..{count - 1}, those of the dataset, got {wrong}")
        self.dataset = dataset
        self.indices = indices

    def _facts(self) -> str:
        return str([*self.indices])

    def _of_each(self, name: str) -> Any:
        values = super()._of_each(name)
        return None if values is None else torch.as_tensor(values)[torch.tensor([*self.indices], dtype=torch.int64)]

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
        """Draw `size` items, or `ratio` times as many as there are, from at least one.

        Args:
            dataset, size, ratio, seed: as for `SamplerConfig`.
            with_replacement: draw each from all of them, so that an item may come several times; otherwise every item
                comes once before any comes again.

        Raises:
            ArgumentError: both or neither of size and ratio are given, one is negative, or the dataset is empty.
        """
        if (size is None) == (ratio is None):
            raise ArgumentError("Sampler: expected either size or ratio")
        wanted = size if size is not None else round(len(dataset) * (ratio or 0.0))
        if wanted < 0 or len(dataset) == 0:
            raise ArgumentError(f"Sampler: expected a size >= 0 of at least one item, got {wanted} of {len(dataset)}")
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
        """Take `dataset[start:end]`; raise ArgumentError if the dataset has no such range."""
        if not 0 <= start <= end <= len(dataset):
            raise ArgumentError(f"Partial: expected 0 <= start <= end <= {len(dataset)}, got {start} and {end}")
        super().__init__(dataset, range(start, end))

    @classmethod
    def split(cls, dataset: Dataset[Item], parts: int) -> list[Self]:
        """So many parts of equal size; the last has the rest, too (Burn's split).

        Raises:
            ArgumentError: there are fewer items than parts.
        """
        if not 1 <= parts <= len(dataset):
            raise ArgumentError(f"Partial: expected 1..{len(dataset)} parts, got {parts}")
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
            raise ArgumentError(f"Partial: expected chunk_size >= 1, got {chunk_size}")
        starts = range(0, len(dataset), chunk_size)
        return [cls(dataset, start, min(start + chunk_size, len(dataset))) for start in starts]


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


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
        return any(getattr(dataset, "draws", True) for dataset in self.datasets)

    @property
    def unreadable(self) -> Sequence[str]:
        """The rows that the datasets have left out already."""
        return [text for dataset in self.datasets for text in getattr(dataset, "unreadable", ())]

    @property
    def fingerprint(self) -> Any:
        """A hash of the datasets'; None where one of them has none."""
        fingerprints = [getattr(dataset, "fingerprint", None) for dataset in self.datasets]
        return hashlib.sha256(" ".join(map(str, fingerprints)).encode()).hexdigest() if all(fingerprints) else None

    @property
    def targets(self) -> Any:
        """The classes of the items, where each dataset says them."""
        return self._joined("targets")

    @property
    def lengths(self) -> Any:
        """The lengths of the items, where each dataset says them."""
        return self._joined("lengths")

    def _joined(self, name: str) -> Any:
        values = [getattr(dataset, name, None) for dataset in self.datasets]
        return None if any(it is None for it in values) else torch.cat([torch.as_tensor(it) for it in values])

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int, /) -> Item:
        if not 0 <= index < len(self):
            raise IndexError(f"item {index} of {len(self)}")
        place = bisect_right(self._ends, index)
        return self.datasets[place][index - (self._ends[place - 1] if place else 0)]


class WindowsDataset(OfOne, Generic[Item]):
    """Lists of `size` items that stand side by side; a window begins at each item, or at every `stride`-th.

    Example:
        >>> list(WindowsDataset("abcd", 3))
        [['a', 'b', 'c'], ['b', 'c', 'd']]
    """

    def __init__(self, dataset: Dataset[Item], size: int, stride: int = 1) -> None:
        """Leave out windows that would reach past the end; raise ArgumentError for a number that is not positive."""
        if size < 1 or stride < 1:
            raise ArgumentError(f"Windows: expected size and stride >= 1, got {size} and {stride}")
        self.dataset = dataset
        self.size = size
        self.stride = stride

    def _facts(self) -> str:
        return f"{self.size} {self.stride}"

    def _of_each(self, name: str) -> None:
        """Nothing: a window has several items."""

    def __len__(self) -> int:
        return max(0, (len(self.dataset) - self.size) // self.stride + 1)

    def __getitem__(self, index: int, /) -> list[Item]:
        if not 0 <= index < len(self):
            raise IndexError(f"window {index} of {len(self)}")
        start = index * self.stride
        return [self.dataset[place] for place in range(start, start + self.size)]


class MapperDataset(OfOne, Generic[Item, Mapped]):
    """`function(item)` for each item of another dataset, computed when it is read.

    A function that draws random numbers takes them from the global generators of Python, torch or NumPy: a DataLoader
    with a seed sets these for each batch, so that the numbers are the same with any number of workers.

    Example:
        >>> list(MapperDataset([1, 2, 3], lambda item: item * 10))
        [10, 20, 30]
    """

    computes = True

    def __init__(self, dataset: Dataset[Item], function: Callable[[Item], Mapped]) -> None:
        self.dataset = dataset
        self.function = function

    @property
    def order_of_pass(self) -> Any:
        """The dataset's own order; None where the loader makes it."""
        return getattr(self.dataset, "order_of_pass", None)

    def __getitem__(self, index: int, /) -> Mapped:
        return self.function(self.dataset[index])


class Mixer(Protocol):
    """Mixes images `[n, channels, height, width]` with the ones before them, and says which share is their own."""

    def __call__(self, images: Tensor, /) -> tuple[Tensor, float]: ...


class MixUp:
    """Images and targets are shares of two (Zhang et al. 2017): `share * x + (1 - share) * other`."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def __call__(self, images: Tensor) -> tuple[Tensor, float]:
        share = _share(self.alpha)
        # Each with the one before it, as in torchvision: no other draw.
        return images.roll(1, 0) * (1.0 - share) + images * share, share


class CutMix:
    """A part of each image is that of another (Yun et al. 2019); the targets have the shares of the areas."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def __call__(self, images: Tensor) -> tuple[Tensor, float]:
        half = 0.5 * (1.0 - _share(self.alpha)) ** 0.5
        height, width = images.shape[-2:]
        x, y = int(torch.randint(width, size=(1,))), int(torch.randint(height, size=(1,)))
        left, right = max(x - int(half * width), 0), min(x + int(half * width), width)
        top, bottom = max(y - int(half * height), 0), min(y + int(half * height), height)
        mixed = images.clone()
        mixed[..., top:bottom, left:right] = images.roll(1, 0)[..., top:bottom, left:right]
        return mixed, 1.0 - (right - left) * (bottom - top) / (width * height)


def _share(alpha: float) -> float:
    return float(torch.distributions.Beta(torch.tensor([alpha]), torch.tensor([alpha])).sample())


class MixedDataset(OfOne):
    """Batches of a data set, mixed by one of several ways, which is drawn for each batch.

    Targets `[n]` of classes become shares `[n, classes]`; those of several labels stay of this shape.
    """

    computes = True

    def __init__(self, dataset: Dataset[Any], ways: Sequence[tuple[Mixer, float]]) -> None:
        """Take the ways with the probability that each mixes a batch."""
        self.dataset = dataset
        self.ways = list(ways)
        self.n_classes: int | None = None

    def __getitem__(self, index: int, /) -> Any:
        """The item as it is; `batch` mixes."""
        return self.dataset[index]

    def expect(self, classes: Sequence[str] | None, batcher: Any) -> None:
        """Be told the classes of the data; a ConfigError if batches are made by another one."""
        if batcher is not None:
            raise ConfigError(
                "transforms: MixUp and CutMix mix batches of images, and the batches of this data are"
                f" {kind_of_batches(batcher)}"
            )
        self.n_classes = None if classes is None else len(classes)

    def batch(self, indices: Sequence[int], device: torch.device) -> Any:
        """The items at the indices as one batch, mixed."""
        batch = default_collate([self.dataset[index] for index in indices])
        way, prob = self.ways[int(torch.randint(len(self.ways), ())) if len(self.ways) > 1 else 0]
        mixes = bool(torch.rand(()) < prob) if prob < 1 else True
        return to_device(self._mixed(batch, way if mixes else None), device)

    def _mixed(self, batch: Any, way: Mixer | None) -> Any:
        # Rows of Hugging Face's datasets are mappings.
        is_named = isinstance(batch, Mapping)
        images = [name for name, value in batch.items() if _are_images(value)] if is_named else [0]
        fits = len(batch) == 2 or (is_named and "labels" in batch)
        if not fits or len(images) != 1 or not _are_images(batch[images[0]]):
            raise DataError(
                "transforms: MixUp and CutMix expect batches of (images [n, channels, height, width], classes [n]), or"
                f" mappings with one such entry and `labels`, got {type(batch).__name__}"
            )
        images_mixed, targets = batch[images[0]], self._shares(batch["labels" if is_named else 1])
        if way is not None:
            images_mixed, share = way(images_mixed)
            targets = targets.roll(1, 0) * (1.0 - share) + targets * share
        return {**batch, images[0]: images_mixed, "labels": targets} if is_named else [images_mixed, targets]

    def _shares(self, targets: Tensor) -> Tensor:
        if targets.dim() == 2:
            return targets.float()
        if targets.dim() != 1 or targets.is_floating_point():
            raise ConfigError(
                f"transforms: MixUp and CutMix mix images of one class each, got targets of {targets.dtype}"
                f"{[*targets.shape]}; leave them out for masks, and for numbers"
            )
        if self.n_classes is None:
            raise ConfigError("transforms: MixUp and CutMix need the names of the classes, which this data lacks")
        return functional.one_hot(targets.long(), self.n_classes).float()


def _are_images(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() == 4 and value.is_floating_point()
