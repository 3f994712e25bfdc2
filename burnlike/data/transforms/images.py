"""Functions of items that are `(image, target)`, for a MapperDataset: of our own, and those of torchvision.

An image is `[channels, height, width]`. A mask, a target of the same height and width, is cut and mirrored with it, and
resized by the nearest pixel. Random numbers are those of torch's global generator, which a DataLoader sets for each
batch. Numbers and draws of sizes and colours are those of `torchvision.transforms.v2`.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ...config import TransformConfig
from ...config.registry import fields_of, tag_of
from ...errors import ConfigError, ShapeError

Item = tuple[Any, ...]
_ATTEMPTS = 10
_GREY = (0.2989, 0.587, 0.114)


def _first(item: Any, name: str) -> Tensor:
    if not (isinstance(item, tuple | list) and item and isinstance(item[0], Tensor) and item[0].dim() >= 1):
        raise ShapeError(f"{name}: expected items that are (tensor, target), got {type(item).__name__}")
    return item[0]


def _image(item: Any, name: str) -> Tensor:
    image = _first(item, name)
    if image.dim() != 3:
        raise ShapeError(f"{name}: expected images [channels, height, width], got a tensor {list(image.shape)}")
    return image


def _is_of(value: Any, image: Tensor) -> bool:
    """True if a part of an item is the image, or a mask of its pixels."""
    return isinstance(value, Tensor) and value.dim() >= 2 and value.shape[-2:] == image.shape[-2:]


def _of_each(item: Item, image: Tensor, function: Callable[[Tensor], Tensor]) -> Item:
    return tuple(function(it) if _is_of(it, image) else it for it in item)


def resized(tensor: Tensor, size: Sequence[int]) -> Tensor:
    """An image `[channels, height, width]`, bilinear with antialias; or a mask `[height, width]`, by the nearest."""
    if [*tensor.shape[-2:]] == [*size]:
        return tensor
    if tensor.dim() == 3:
        return functional.interpolate(tensor[None], size=[*size], mode="bilinear", antialias=True)[0]
    return functional.interpolate(tensor[None, None].float(), size=[*size], mode="nearest")[0, 0].to(tensor.dtype)


class Normalize:
    """`(image - mean) / std` for each channel; of a row of features, for each column."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        self.mean = torch.tensor(mean, dtype=torch.float32)
        self.std = torch.tensor(std, dtype=torch.float32)

    def __call__(self, item: Item) -> Item:
        image = _first(item, "Normalize")
        for values in (self.mean, self.std):
            if values.numel() not in (1, image.shape[0]):
                raise ShapeError(
                    f"Normalize: expected a mean and a std for each of the {image.shape[0]} channels or columns, or one"
                    f" for all, got {self.mean.numel()} and {self.std.numel()}"
                )
        shape = (-1, *(1,) * (image.dim() - 1))
        return ((image - self.mean.view(shape)) / self.std.view(shape), *item[1:])


class RandomHorizontalFlip:
    """Mirrors an image with a probability."""

    def __init__(self, prob: float = 0.5) -> None:
        self.prob = prob

    def __call__(self, item: Item) -> Item:
        image = _image(item, "RandomHorizontalFlip")
        if torch.rand(()) >= self.prob:
            return item
        return _of_each(item, image, lambda it: it.flip(-1))


class RandomCrop:
    """Cuts out a part at a random place."""

    def __init__(self, size: Sequence[int] | None = None, padding: int = 0) -> None:
        """Take the height and width of the part, None for the image's own, and the zeros around the image."""
        self.size = size
        self.padding = padding

    def __call__(self, item: Item) -> Item:
        image = _image(item, "RandomCrop")
        height, width = self.size or image.shape[-2:]
        room = [
            side + 2 * self.padding - wanted for side, wanted in zip(image.shape[-2:], (height, width), strict=True)
        ]
        if min(room) < 0:
            raise ShapeError(
                f"RandomCrop: expected images of at least {[height, width]} with a padding of {self.padding}, got one"
                f" of {list(image.shape[-2:])}"
            )
        top, left = (int(torch.randint(it + 1, ())) for it in room)

        def cut(tensor: Tensor) -> Tensor:
            padded = functional.pad(tensor, (self.padding,) * 4)
            # A view would keep the whole image in memory, and travel with it from a worker.
            return padded[..., top : top + height, left : left + width].clone()

        return _of_each(item, image, cut)


class Resize:
    """Height and width, or one number for the shorter side."""

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = size

    def __call__(self, item: Item) -> Item:
        image = _image(item, "Resize")
        size = self.size
        if isinstance(size, int):
            height, width = image.shape[-2:]
            longer = int(size * max(height, width) / min(height, width))
            size = (size, longer) if height <= width else (longer, size)
        return _of_each(item, image, lambda it: resized(it, size))


class CenterCrop:
    """Cuts out the middle."""

    def __init__(self, size: Sequence[int]) -> None:
        self.size = size

    def __call__(self, item: Item) -> Item:
        image = _image(item, "CenterCrop")
        (height, width), image_size = self.size, image.shape[-2:]
        if image_size[0] < height or image_size[1] < width:
            raise ShapeError(
                f"CenterCrop: expected images of at least {[height, width]}, got one of {[*image_size]}; put a Resize"
                " before"
            )
        top, left = round((image_size[0] - height) / 2.0), round((image_size[1] - width) / 2.0)
        return _of_each(item, image, lambda it: it[..., top : top + height, left : left + width].clone())


class RandomResizedCrop:
    """Cuts out a part of a random area and ratio of width to height, and resizes it (Szegedy et al. 2014)."""

    def __init__(
        self, size: Sequence[int], scale: Sequence[float] = (0.08, 1.0), ratio: Sequence[float] = (3 / 4, 4 / 3)
    ) -> None:
        self.size, self.scale = size, scale
        self.log_ratio = torch.log(torch.tensor(ratio))

    def __call__(self, item: Item) -> Item:
        image = _image(item, "RandomResizedCrop")
        top, left, height, width = self._part(*image.shape[-2:])
        return _of_each(
            item, image, lambda it: resized(it[..., top : top + height, left : left + width], self.size).clone()
        )

    def _part(self, height: int, width: int) -> tuple[int, int, int, int]:
        for _ in range(_ATTEMPTS):
            area = height * width * torch.empty(1).uniform_(*self.scale).item()
            ratio = torch.exp(torch.empty(1).uniform_(*self.log_ratio.tolist())).item()
            part_width, part_height = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < part_width <= width and 0 < part_height <= height:
                top = int(torch.randint(0, height - part_height + 1, size=(1,)))
                left = int(torch.randint(0, width - part_width + 1, size=(1,)))
                return top, left, part_height, part_width
        low, high = torch.exp(self.log_ratio).tolist()  # the middle, within the ratios
        part_height, part_width = height, width
        if width / height < low:
            part_height = round(width / low)
        elif width / height > high:
            part_width = round(height * high)
        return (height - part_height) // 2, (width - part_width) // 2, part_height, part_width


Jitter = float | Sequence[float] | None
"""How far a factor is from 1, or a turn from 0, at most; or the range that it is drawn from."""


class ColorJitter:
    """Changes brightness, contrast, saturation and hue by factors drawn from ranges, in a random order."""

    def __init__(
        self, brightness: Jitter = None, contrast: Jitter = None, saturation: Jitter = None, hue: Jitter = None
    ) -> None:
        factors = [_range(it, 1.0) for it in (brightness, contrast, saturation)]
        self.ranges = (*factors, _range(hue, 0.0))

    def __call__(self, item: Item) -> Item:
        image = _image(item, "ColorJitter")
        if image.shape[0] not in (1, 3):
            raise ShapeError(f"ColorJitter: expected images of 1 or 3 channels, got {image.shape[0]}")
        order = torch.randperm(4).tolist()
        factors = [None if it is None else torch.empty(1).uniform_(*it).item() for it in self.ranges]
        for place in order:
            if (factor := factors[place]) is not None:
                image = _CHANGES[place](image, factor)
        return (image, *item[1:])


def _range(jitter: Jitter, middle: float) -> Sequence[float] | None:
    if not jitter:
        return None
    if isinstance(jitter, Sequence):
        return jitter
    return (max(middle - jitter, 0.0) if middle else -jitter, middle + jitter)


def _grey(image: Tensor) -> Tensor:
    if image.shape[0] == 1:
        return image
    red, green, blue = image.unbind(0)
    return red.mul(_GREY[0]).add_(green, alpha=_GREY[1]).add_(blue, alpha=_GREY[2]).unsqueeze(0)


def _blended(image: Tensor, other: Tensor | float, factor: float) -> Tensor:
    return (image * factor + other * (1.0 - factor)).clamp(0, 1)


def _hue(image: Tensor, factor: float) -> Tensor:
    """The hue turned by `factor` of the circle: to hue, saturation and value (Smith 1978), and back."""
    if image.shape[0] == 1:
        return image
    red, green, blue = image.unbind(0)
    value, low = image.amax(0), image.amin(0)
    spread = value - low
    is_grey = value == low
    saturation = spread / torch.where(is_grey, 1.0, value)
    divisor = torch.where(is_grey, 1.0, spread)
    from_red, from_green, from_blue = ((value - it) / divisor for it in (red, green, blue))
    is_red, is_green = value == red, value == green
    hue = torch.where(
        is_red,
        from_blue - from_green,
        torch.where(is_green, 2.0 + from_red - from_blue, 4.0 + from_green - from_red),
    )
    sixths = (hue / 6.0 + 1.0 + factor).remainder(1.0) * 6.0
    sector, rest = sixths.floor(), sixths - sixths.floor()
    number = sector.long() % 6
    dark = (value * (1.0 - saturation)).clamp(0, 1)
    falling = (value * (1.0 - saturation * rest)).clamp(0, 1)
    rising = (value * (1.0 - saturation * (1.0 - rest))).clamp(0, 1)
    channels = torch.stack([value, falling, dark, rising])  # by number of the sector, for red, green and blue
    table = torch.tensor([[0, 1, 2, 2, 3, 0], [3, 0, 0, 1, 2, 2], [2, 2, 3, 0, 0, 1]])
    return torch.stack([channels.gather(0, row[number].unsqueeze(0))[0] for row in table])


_CHANGES: tuple[Callable[[Tensor, float], Tensor], ...] = (
    lambda image, factor: (image * factor).clamp(0, 1),
    lambda image, factor: _blended(image, _grey(image).mean((-3, -2, -1), keepdim=True), factor),
    lambda image, factor: image if image.shape[0] == 1 else _blended(image, _grey(image), factor),
    _hue,
)


class Torchvision:
    """A transform of `torchvision.transforms.v2` of the image of an item, and of the masks of its pixels.

    Random numbers are those of torch's global generator.
    """

    def __init__(self, config: TransformConfig) -> None:
        """Make the transform that the tag of a config names; a ConfigError if torchvision is missing or refuses it."""
        name = (tag_of(type(config)) or "").removeprefix("torchvision.")
        options = {key: getattr(config, key) for key in fields_of(type(config)) if key != "parts"}
        try:
            from torchvision.transforms import v2  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise ConfigError(
                f"type: torchvision.{name} needs the package torchvision: pip install 'burnlike[torchvision]'"
            ) from error
        if "interpolation" in options:
            options = {**options, "interpolation": v2.InterpolationMode(options["interpolation"])}
        if "policy" in options:
            options = {**options, "policy": v2.AutoAugmentPolicy(options["policy"])}
        self.name = name
        try:
            self.transform = getattr(v2, name)(**options)
        except (TypeError, ValueError, AttributeError) as error:
            raise ConfigError(f"transforms: torchvision.{name}: {error}") from error

    def __call__(self, item: Item) -> Item:
        from torchvision import tv_tensors  # pyright: ignore[reportMissingImports]

        image = _image(item, f"torchvision.{self.name}")
        keeps_masks = self.name == "RandomErasing"  # and warns of them
        places = [place for place, it in enumerate(item) if _is_of(it, image) and not (place and keeps_masks)]
        wrapped = [tv_tensors.Mask(item[place]) if place else tv_tensors.Image(image) for place in places]
        try:
            transformed = self.transform(*wrapped)
        except TypeError as error:
            if len(places) == 1 or "Mask" not in str(error):
                raise
            raise ConfigError(f"transforms: torchvision.{self.name} is for images without masks: {error}") from error
        changed = dict(zip(places, transformed if len(places) > 1 else [transformed], strict=True))
        return tuple(changed[it].as_subclass(Tensor) if it in changed else value for it, value in enumerate(item))
