"""Configs of transforms, for `transforms:` of a training config."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ...config import Meta, TransformConfig
from ...config.bounds import Count, Finite, Positive, Size

if TYPE_CHECKING:
    from . import datasets

Part = Literal["train", "valid"]
Parts = Annotated[tuple[Part, ...], Meta(min_length=1)]
Seed = Annotated[int, Meta(ge=0, lt=2**32)]
Probability = Annotated[float, Meta(ge=0, le=1)]
Index = Annotated[int, Meta(ge=0, lt=2**62)]
_TRAIN: tuple[Part, ...] = ("train",)


class ShuffledConfig(TransformConfig, tag="Shuffled"):
    """All items once, in an order drawn from a seed. Loaders shuffle anyway; this is for what comes after it.

    Attributes:
        seed: of the order.
    """

    seed: Seed = 0
    parts: Parts = _TRAIN

    def init(self, dataset: Any) -> "datasets.ShuffledDataset[Any]":
        from . import datasets

        return datasets.ShuffledDataset(dataset, self.seed)


class SamplerConfig(TransformConfig, tag="Sampler"):
    """Items drawn by a seed.

    Attributes:
        size: how many are drawn; or
        ratio: how many times as many as there are.
        with_replacement: whether an item may come again before all have come.
        seed: of the draws.
    """

    size: Count | None = None
    ratio: Positive | None = None
    with_replacement: bool = False
    seed: Seed = 0
    parts: Parts = _TRAIN

    def validate(self) -> Iterable[tuple[str, str]]:
        if (self.size is None) == (self.ratio is None):
            yield "size", "expected either `size` or `ratio`"

    def init(self, dataset: Any) -> "datasets.SamplerDataset[Any]":
        from . import datasets

        replaced = self.with_replacement
        return datasets.SamplerDataset(dataset, self.size, ratio=self.ratio, with_replacement=replaced, seed=self.seed)


class SelectionConfig(TransformConfig, tag="Selection"):
    """The items at some indices, in their order.

    Attributes:
        indices: from 0; one may come several times.
    """

    indices: Annotated[tuple[Index, ...], Meta(min_length=1)]
    parts: Parts = _TRAIN

    def init(self, dataset: Any) -> "datasets.SelectionDataset[Any]":
        from . import datasets

        return datasets.SelectionDataset(dataset, list(self.indices))


class PartialConfig(TransformConfig, tag="Partial"):
    """The items from one index to another, without that one.

    Attributes:
        start: the first.
        end: after the last; None is the end.
    """

    start: Index = 0
    end: Index | None = None
    parts: Parts = _TRAIN

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.end is not None and self.end <= self.start:
            yield "end", f"expected more than start, {self.start}, got {self.end}"

    def init(self, dataset: Any) -> "datasets.PartialDataset[Any]":
        from . import datasets

        return datasets.PartialDataset(dataset, self.start, len(dataset) if self.end is None else self.end)


class WindowsConfig(TransformConfig, tag="Windows"):
    """Lists of neighbouring items.

    Attributes:
        size: items of a window.
        stride: distance of the starts of two windows.
    """

    size: Count
    stride: Count = 1

    def init(self, dataset: Any) -> "datasets.WindowsDataset[Any]":
        from . import datasets

        return datasets.WindowsDataset(dataset, self.size, self.stride)


class NormalizeConfig(TransformConfig, tag="Normalize"):
    """`(image - mean) / std` for each channel; of rows of features, for each column.

    Attributes:
        mean: one for each channel or column, or one for all.
        std: likewise, each positive.
        parts: what it is for; it should be all that the model sees.
    """

    mean: Annotated[tuple[Finite, ...], Meta(min_length=1)]
    std: Annotated[tuple[Positive, ...], Meta(min_length=1)]

    def init(self, dataset: Any) -> "datasets.MapperDataset[Any, Any]":
        from . import datasets, images

        return datasets.MapperDataset(dataset, images.Normalize(self.mean, self.std))


class RandomHorizontalFlipConfig(TransformConfig, tag="RandomHorizontalFlip"):
    """Images, and masks with them, of which a part is mirrored.

    Attributes:
        prob: the probability.
    """

    prob: Probability = 0.5
    parts: Parts = _TRAIN

    def init(self, dataset: Any) -> "datasets.MapperDataset[Any, Any]":
        from . import datasets, images

        return datasets.MapperDataset(dataset, images.RandomHorizontalFlip(self.prob))


class RandomCropConfig(TransformConfig, tag="RandomCrop"):
    """A part of each image, and of its mask, at a random place.

    Attributes:
        size: height and width of the part; None is that of the image, which is padded first.
        padding: pixels of zeros around the image, of which masks have class 0.
    """

    size: Annotated[tuple[Size, ...], Meta(min_length=2, max_length=2)] | None = None
    padding: Annotated[int, Meta(ge=0, le=4096)] = 0
    parts: Parts = _TRAIN

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.size is None and self.padding == 0:
            yield "size", "expected `size`, `padding`, or both: without them nothing is changed"

    def init(self, dataset: Any) -> "datasets.MapperDataset[Any, Any]":
        from . import datasets, images

        return datasets.MapperDataset(dataset, images.RandomCrop(self.size, self.padding))

    def item_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of an item's input, where it was `shape` before."""
        return shape if self.size is None else (*shape[:-2], *self.size)
