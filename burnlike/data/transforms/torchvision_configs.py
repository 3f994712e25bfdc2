"""Configs of the transforms of torchvision, `type: torchvision.NAME`: those whose arguments are plain values.

The fields and their defaults are those of `torchvision.transforms.v2`, which a test compares.
"""

from typing import Annotated, Any, Literal

from ...config import Meta, TransformConfig
from ...config.bounds import Count, Finite, NotNegative, Positive, Size
from .configs import HeightAndWidth, Parts, Probability, Turn, _OfImages

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
