"""Configs of transforms, for `transforms:` of a training config: of data sets, of images, and of batches of these.

A class line names what is called with the fields of the config: a data set of another one, a function of an image, or
one of a batch of images.

Those of torchvision, `type: torchvision.NAME`, are the ones whose arguments are plain values. Their fields and defaults
are those of `torchvision.transforms.v2`, which a test compares.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ...config import Meta, TransformConfig
from ...config.base import built
from ...config.bounds import Count, Finite, NotNegative, Positive, Size, at_most
from ..sources.configs import Seed

if TYPE_CHECKING:
    from . import datasets


Part = Literal["train", "valid"]
Parts = Annotated[tuple[Part, ...], Meta(min_length=1)]
Probability = Annotated[float, Meta(ge=0, le=1)]
Index = Annotated[int, Meta(ge=0, lt=2**62)]
HeightAndWidth = Annotated[tuple[Size, ...], Meta(min_length=2, max_length=2)]
Range = Annotated[tuple[Positive, ...], Meta(min_length=2, max_length=2)]
Factor = Annotated[float, Meta(ge=0), at_most(100, "an image is white then")]
Factors = Annotated[tuple[NotNegative, ...], Meta(min_length=2, max_length=2)]
Turn = Annotated[float, Meta(ge=-0.5, le=0.5)]
Turns = Annotated[tuple[Turn, ...], Meta(min_length=2, max_length=2)]
_TRAIN: tuple[Part, ...] = ("train",)


class ShuffledConfig(TransformConfig["datasets.ShuffledDataset"], tag="Shuffled"):
    """All items once, in an order drawn from a seed. Loaders shuffle anyway; this is for what comes after it.

    Attributes:
        seed: of the order.
    """

    seed: Seed = 0
    parts: Parts = _TRAIN


class SamplerConfig(TransformConfig["datasets.SamplerDataset"], tag="Sampler"):
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


class SelectionConfig(TransformConfig["datasets.SelectionDataset"], tag="Selection"):
    """The items at some indices, in their order.

    Attributes:
        indices: from 0; one may come several times.
    """

    indices: Annotated[tuple[Index, ...], Meta(min_length=1)]
    parts: Parts = _TRAIN


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


class WindowsConfig(TransformConfig["datasets.WindowsDataset"], tag="Windows"):
    """Lists of neighbouring items.

    Attributes:
        size: items of a window.
        stride: distance of the starts of two windows.
    """

    size: Count
    stride: Count = 1


class _OfImages(TransformConfig):
    """Changes each image by a function: what the class line names is called with the fields."""

    def init(self, dataset: Any) -> "datasets.MapperDataset[Any, Any]":
        from . import datasets

        return datasets.MapperDataset(dataset, built(self, "init(dataset)"))

    def item_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of an item's input, where it was `shape` before."""
        size = getattr(self, "size", None)
        return (*shape[:-2], *size) if isinstance(size, tuple) and len(size) == 2 else shape


class NormalizeConfig(_OfImages, tag="Normalize", builds=".images:Normalize"):
    """`(image - mean) / std` for each channel; of rows of features, for each column.

    Attributes:
        mean: one for each channel or column, or one for all.
        std: likewise, each positive.
        parts: what it is for; it should be all that the model sees.
    """

    mean: Annotated[tuple[Finite, ...], Meta(min_length=1)]
    std: Annotated[tuple[Positive, ...], Meta(min_length=1)]


class RandomHorizontalFlipConfig(_OfImages, tag="RandomHorizontalFlip", builds=".images:RandomHorizontalFlip"):
    """Images, and masks with them, of which a part is mirrored.

    Attributes:
        prob: the probability.
    """

    prob: Probability = 0.5
    parts: Parts = _TRAIN


class RandomCropConfig(_OfImages, tag="RandomCrop", builds=".images:RandomCrop"):
    """A part of each image, and of its mask, at a random place.

    Attributes:
        size: height and width of the part; None is that of the image, which is padded first.
        padding: pixels of zeros around the image, of which masks have class 0.
    """

    size: HeightAndWidth | None = None
    padding: Annotated[int, Meta(ge=0, le=4096)] = 0
    parts: Parts = _TRAIN

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.size is None and self.padding == 0:
            yield "size", "expected `size`, `padding`, or both: without them nothing is changed"


class ResizeConfig(_OfImages, tag="Resize", builds=".images:Resize"):
    """Images, and masks with them, in another size.

    Attributes:
        size: height and width; or one number for the shorter side.
    """

    size: Size | HeightAndWidth


class CenterCropConfig(_OfImages, tag="CenterCrop", builds=".images:CenterCrop"):
    """The middle of each image, and of its mask.

    Attributes:
        size: height and width.
    """

    size: HeightAndWidth


class RandomResizedCropConfig(_OfImages, tag="RandomResizedCrop", builds=".images:RandomResizedCrop"):
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


class ColorJitterConfig(_OfImages, tag="ColorJitter", builds=".images:ColorJitter"):
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


class _Mixing(TransformConfig):
    """Mixes the images of a batch; it is the last of the transforms, wherever it stands."""

    alpha: Annotated[float, Meta(gt=0), at_most(1e6, "all shares are a half then")]
    prob: Probability = 1.0
    parts: Annotated[tuple[Literal["train"], ...], Meta(min_length=1)] = ("train",)

    is_of_batches = True

    def init(self, dataset: Any) -> "datasets.MixedDataset":
        from . import datasets

        ways = [(built(self, "init(dataset)"), self.prob)]
        if isinstance(dataset, datasets.MixedDataset):  # one of them for each batch
            return datasets.MixedDataset(dataset.dataset, [*dataset.ways, *ways])
        return datasets.MixedDataset(dataset, ways)


class MixUpConfig(_Mixing, tag="MixUp", builds=".datasets:MixUp"):
    """Each image, and its class, is a mean of two (Zhang et al. 2017); beside CutMix, one of both for each batch.

    Attributes:
        alpha: of the Beta distribution of the shares; small ones are near 0 and 1.
        prob: probability that a batch is mixed.
        parts: the items to train on; others are never mixed.
    """

    alpha: Annotated[float, Meta(gt=0), at_most(1e6, "all shares are a half then")] = 0.2


class CutMixConfig(_Mixing, tag="CutMix", builds=".datasets:CutMix"):
    """A part of each image is another's, and so is a share of its class (Yun et al. 2019).

    Attributes:
        alpha: of the Beta distribution of the shares of the area.
        prob: probability that a batch is mixed.
        parts: the items to train on; others are never mixed.
    """

    alpha: Annotated[float, Meta(gt=0), at_most(1e6, "all shares are a half then")] = 1.0


Sides = Size | HeightAndWidth
Pair = Annotated[tuple[Finite, ...], Meta(min_length=2, max_length=2)]
Sizes = Annotated[tuple[Size, ...], Meta(min_length=1)]
Numbers = Annotated[tuple[Finite, ...], Meta(min_length=1)]
Padding = Annotated[int, Meta(ge=0, le=4096)]
Paddings = Annotated[tuple[Padding, ...], Meta(min_length=2, max_length=4)]
Values = Finite | Numbers
Fill = Finite | Numbers | None
Interpolation = Literal["nearest", "nearest-exact", "bilinear", "bicubic"]
Border = Literal["constant", "edge", "reflect", "symmetric"]
Jitter = NotNegative | Pair | None
Policy = Literal["imagenet", "cifar10", "svhn"]
Bits = Annotated[int, Meta(ge=0, le=8)]
Amount = Finite | Pair
MaybePair = Pair | None
SomePadding = Padding | Paddings
MaybePadding = Padding | Paddings | None
MaybeSize = Size | None
SomeSizes = Size | Sizes
Depth = Annotated[int, Meta(ge=-1, le=16)]

Fields = dict[str, tuple[Any, ...]]
"""The type of each argument, and its default if it has one."""

_P: Fields = {"p": (Probability, 0.5)}
_NEAREST: Fields = {"interpolation": (Interpolation, "nearest")}
_BILINEAR: Fields = {"interpolation": (Interpolation, "bilinear")}
_SMOOTH: Fields = {**_BILINEAR, "antialias": (bool | None, True)}
_BINS: Fields = {"num_magnitude_bins": (Count, 31), **_NEAREST, "fill": (Fill, None)}
_ZERO: Fields = {"fill": (Fill, 0)}
_PADDED: Fields = {**_ZERO, "padding_mode": (Border, "constant")}

RANDOM: dict[str, Fields] = {
    "AugMix": {
        "severity": (Count, 3), "mixture_width": (Count, 3), "chain_depth": (Depth, -1), "alpha": (Positive, 1.0),
        "all_ops": (bool, True), **_BILINEAR, "fill": (Fill, None),
    },
    "AutoAugment": {"policy": (Policy, "imagenet"), **_NEAREST, "fill": (Fill, None)},
    "ColorJitter": {
        "brightness": (Jitter, None), "contrast": (Jitter, None), "saturation": (Jitter, None), "hue": (Jitter, None),
    },
    "ElasticTransform": {"alpha": (Amount, 50.0), "sigma": (Amount, 5.0), **_BILINEAR, **_ZERO},
    "GaussianBlur": {"kernel_size": (Sides,), "sigma": (Amount, (0.1, 2.0))},
    "GaussianNoise": {"mean": (Finite, 0.0), "sigma": (NotNegative, 0.1), "clip": (bool, True)},
    "RandAugment": {"num_ops": (Count, 2), "magnitude": (Padding, 9), **_BINS},
    "RandomAdjustSharpness": {"sharpness_factor": (NotNegative,), **_P},
    "RandomAffine": {
        "degrees": (Amount,), "translate": (MaybePair, None), "scale": (MaybePair, None),
        "shear": (Fill, None), **_NEAREST, **_ZERO, "center": (MaybePair, None),
    },
    "RandomAutocontrast": _P,
    "RandomChannelPermutation": {},
    "RandomCrop": {
        "size": (Sides,), "padding": (MaybePadding, None), "pad_if_needed": (bool, False), **_PADDED,
    },
    "RandomEqualize": _P,
    "RandomErasing": {
        **_P, "scale": (Pair, (0.02, 0.33)), "ratio": (Pair, (0.3, 3.3)), "value": (Values, 0.0),
    },
    "RandomGrayscale": {"p": (Probability, 0.1)},
    "RandomHorizontalFlip": _P,
    "RandomInvert": _P,
    "RandomPerspective": {"distortion_scale": (Probability, 0.5), **_P, **_BILINEAR, **_ZERO},
    "RandomPhotometricDistort": {
        "brightness": (Pair, (0.875, 1.125)), "contrast": (Pair, (0.5, 1.5)), "saturation": (Pair, (0.5, 1.5)),
        "hue": (Annotated[tuple[Turn, ...], Meta(min_length=2, max_length=2)], (-0.05, 0.05)), **_P,
    },
    "RandomPosterize": {"bits": (Bits,), **_P},
    "RandomResize": {"min_size": (Size,), "max_size": (Size,), **_SMOOTH},
    "RandomResizedCrop": {"size": (Sides,), "scale": (Pair, (0.08, 1.0)), "ratio": (Pair, (3 / 4, 4 / 3)), **_SMOOTH},
    "RandomRotation": {
        "degrees": (Amount,), **_NEAREST, "expand": (bool, False), "center": (MaybePair, None), **_ZERO,
    },
    "RandomShortestSize": {"min_size": (SomeSizes,), "max_size": (MaybeSize, None), **_SMOOTH},
    "RandomSolarize": {"threshold": (Finite,), **_P},
    "RandomVerticalFlip": _P,
    "RandomZoomOut": {**_ZERO, "side_range": (Pair, (1.0, 4.0)), **_P},
    "ScaleJitter": {"target_size": (HeightAndWidth,), "scale_range": (Pair, (0.1, 2.0)), **_SMOOTH},
    "TrivialAugmentWide": _BINS,
}  # fmt: skip
"""For the items to train on."""

FIXED: dict[str, Fields] = {
    "CenterCrop": {"size": (Sides,)},
    "Grayscale": {"num_output_channels": (Literal[1, 3], 1)},
    "Normalize": {"mean": (Numbers,), "std": (Numbers,)},
    "Pad": {"padding": (SomePadding,), **_PADDED},
    "Resize": {"size": (SomeSizes,), **_BILINEAR, "max_size": (MaybeSize, None), "antialias": (bool | None, True)},
    "RGB": {},
}
"""For all items."""


class _TorchvisionConfig(_OfImages, builds=".images:Torchvision"):
    """Images, and masks with them, changed by torchvision; it needs the extra `torchvision`."""


def _made(name: str, fields: Fields, parts: tuple[str, ...]) -> type[TransformConfig]:
    """The config of a transform; `parts` is what it is for, unless YAML says otherwise."""
    described = "".join(f"\n    {key}: as of torchvision." for key in fields)
    what = f"`torchvision.transforms.v2.{name}`"
    annotations = {key: kind for key, (kind, *_) in fields.items()}
    namespace = {
        "__module__": __name__,
        "__doc__": f"{what}.\n\nAttributes:{described}" if fields else f"{what}.",
        "__annotations__": {**annotations, "parts": Parts},
        "parts": parts,
        **{key: default for key, (_, *defaults) in fields.items() for default in defaults},
    }
    make: Any = type(_TorchvisionConfig)
    return make(f"Torchvision{name}Config", (_TorchvisionConfig,), namespace, tag=f"torchvision.{name}")


CONFIGS = [_made(name, fields, ("train",)) for name, fields in RANDOM.items()] + [
    _made(name, fields, ("train", "valid")) for name, fields in FIXED.items()
]
"""They are known to YAML as long as they are kept here."""
