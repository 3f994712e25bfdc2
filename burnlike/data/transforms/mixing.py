"""Batches whose images are mixed with one another: MixUp and CutMix."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import default_collate

from ...errors import ConfigError, DataError
from ..batching import to_device
from ..dataset import Dataset, kind_of_batches
from .datasets import OfOne


class Mixer(Protocol):
    """Mixes images `[n, channels, height, width]` with the ones before them, and says which share is their own."""

    def __call__(self, images: Tensor, /) -> tuple[Tensor, float]: ...


class MixUp:
    """Images and targets are shares of two (Zhang et al. 2017): `share * x + (1 - share) * other`."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def __call__(self, images: Tensor) -> tuple[Tensor, float]:
        share = _share(self.alpha)
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
        is_named = isinstance(batch, Mapping)
        images = [name for name, it in batch.items() if _are_images(it)] if is_named else [0]
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
            raise DataError(
                f"transforms: MixUp and CutMix expect classes [n] for targets, got {targets.dtype}{[*targets.shape]}"
            )
        if self.n_classes is None:
            raise ConfigError("transforms: MixUp and CutMix need the names of the classes, which this data lacks")
        return functional.one_hot(targets.long(), self.n_classes).float()


def _are_images(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() == 4 and value.is_floating_point()
