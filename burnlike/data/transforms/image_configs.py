"""Configs of what is done with images: sizes, colours, and mixing them in batches."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ...config import Meta, TransformConfig
from ...config.bounds import NotNegative, Positive, Size, at_most
from .configs import _TRAIN, Parts, Probability

if TYPE_CHECKING:
    from . import datasets, mixing

HeightAndWidth = Annotated[tuple[Size, ...], Meta(min_length=2, max_length=2)]
Range = Annotated[tuple[Positive, ...], Meta(min_length=2, max_length=2)]
Factor = Annotated[float, Meta(ge=0), at_most(100, "an image is white then")]
Factors = Annotated[tuple[NotNegative, ...], Meta(min_length=2, max_length=2)]
Turn = Annotated[float, Meta(ge=-0.5, le=0.5)]
Turns = Annotated[tuple[Turn, ...], Meta(min_length=2, max_length=2)]


class _OfImages(TransformConfig):
    """Changes each image."""

    def function(self) -> Any:
        """The function that changes an item."""
        raise NotImplementedError(f"{type(self).__name__} does not define function()")

    def init(self, dataset: Any) -> "datasets.MapperDataset[Any, Any]":
        from . import datasets

        return datasets.MapperDataset(dataset, self.function())

    def item_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of an item's input, where it was `shape` before."""
        size = getattr(self, "size", None)
        return (*shape[:-2], *size) if isinstance(size, tuple) and len(size) == 2 else shape


class ResizeConfig(_OfImages, tag="Resize"):
    """Images, and masks with them, in another size.

    Attributes:
        size: height and width; or one number for the shorter side.
    """

    size: Size | HeightAndWidth

    def function(self) -> Any:
        from . import photos

        return photos.Resize(self.size)


class CenterCropConfig(_OfImages, tag="CenterCrop"):
    """The middle of each image, and of its mask.

    Attributes:
        size: height and width.
    """

    size: HeightAndWidth

    def function(self) -> Any:
        from . import photos

        return photos.CenterCrop(self.size)


class RandomResizedCropConfig(_OfImages, tag="RandomResizedCrop"):
    """A part of each image, and of its mask, of a random place, area and ratio, resized (Szegedy et al. 2014).

    Attributes:
        size: height and width that the part is resized to.
        scale: the least and the largest share of the image's area.
        ratio: the least and the largest width / height.
    """

    size: HeightAndWidth
    scale: Range = (0.08, 1.0)
    ratio: Range = (3 / 4, 4 / 3)
    parts: Parts = _TRAIN

    def validate(self) -> Iterable[tuple[str, str]]:
        for name in ("scale", "ratio"):
            low, high = getattr(self, name)
            if low > high:
                yield name, f"expected the smaller number first, got {low} and {high}"
        if self.scale[1] > 1:
            yield "scale", f"expected shares of the area up to 1, got {self.scale[1]}"

    def function(self) -> Any:
        from . import photos

        return photos.RandomResizedCrop(self.size, self.scale, self.ratio)


class ColorJitterConfig(_OfImages, tag="ColorJitter"):
    """Images whose colours are changed, in a random order.

    Attributes:
        brightness: factors are drawn from 1 - brightness to 1 + brightness, or from this range; None changes nothing.
        contrast: likewise.
        saturation: likewise.
        hue: turns of the circle of colours, from -hue to hue, or from this range, within -0.5 and 0.5.
    """

    brightness: Factor | Factors | None = None
    contrast: Factor | Factors | None = None
    saturation: Factor | Factors | None = None
    hue: Turn | Turns | None = None
    parts: Parts = _TRAIN

    def validate(self) -> Iterable[tuple[str, str]]:
        if not any((self.brightness, self.contrast, self.saturation, self.hue)):
            yield "brightness", "expected `brightness`, `contrast`, `saturation` or `hue`: nothing is changed without"
        for name in ("brightness", "contrast", "saturation", "hue"):
            value = getattr(self, name)
            if isinstance(value, tuple) and value[0] > value[1]:
                yield name, f"expected the smaller number first, got {value[0]} and {value[1]}"
        if isinstance(self.hue, float | int) and self.hue < 0:
            yield "hue", f"expected a number >= 0 or a range, got {self.hue}"

    def function(self) -> Any:
        from . import photos

        factors = [_range(it, 1.0) for it in (self.brightness, self.contrast, self.saturation)]
        return photos.ColorJitter(*factors, hue=_range(self.hue, 0.0))


def _range(value: Any, middle: float) -> tuple[float, ...] | None:
    if not value or isinstance(value, tuple):
        return value or None
    return (max(middle - value, 0.0) if middle else -value, middle + value)


class _Mixing(TransformConfig):
    """Mixes the images of a batch; it is the last of the transforms, wherever it stands."""

    alpha: Annotated[float, Meta(gt=0), at_most(1e6, "all shares are a half then")]
    prob: Probability = 1.0
    parts: Annotated[tuple[Literal["train"], ...], Meta(min_length=1)] = ("train",)

    is_of_batches = True

    def mixer(self) -> "mixing.Mixer":
        """The mixer of a batch."""
        raise NotImplementedError(f"{type(self).__name__} does not define mixer()")

    def init(self, dataset: Any) -> "mixing.MixedDataset":
        from . import mixing

        ways = [(self.mixer(), self.prob)]
        if isinstance(dataset, mixing.MixedDataset):  # one of them for each batch
            return mixing.MixedDataset(dataset.dataset, [*dataset.ways, *ways])
        return mixing.MixedDataset(dataset, ways)


class MixUpConfig(_Mixing, tag="MixUp"):
    """Each image, and its class, is a mean of two (Zhang et al. 2017); beside CutMix, one of both for each batch.

    Attributes:
        alpha: of the Beta distribution of the shares; small ones are near 0 and 1.
        prob: probability that a batch is mixed.
        parts: the items to train on; others are never mixed.
    """

    alpha: Annotated[float, Meta(gt=0), at_most(1e6, "all shares are a half then")] = 0.2

    def mixer(self) -> "mixing.Mixer":
        from . import mixing

        return mixing.MixUp(self.alpha)


class CutMixConfig(_Mixing, tag="CutMix"):
    """A part of each image is another's, and so is a share of its class (Yun et al. 2019).

    Attributes:
        alpha: of the Beta distribution of the shares of the area.
        prob: probability that a batch is mixed.
        parts: the items to train on; others are never mixed.
    """

    alpha: Annotated[float, Meta(gt=0), at_most(1e6, "all shares are a half then")] = 1.0

    def mixer(self) -> "mixing.Mixer":
        from . import mixing

        return mixing.CutMix(self.alpha)
