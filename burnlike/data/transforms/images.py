"""Functions of items that are `(image, target)`: for a MapperDataset.

An image is `[channels, height, width]`. A mask, a target of the same height and width, is changed in the same way.
Random numbers are those of torch's global generator, which a DataLoader sets for each batch.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ...errors import ShapeError

Item = tuple[Any, ...]


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
        return tuple(it.flip(-1) if _is_of(it, image) else it for it in item)


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
            return padded[..., top : top + height, left : left + width].clone()

        return tuple(cut(it) if _is_of(it, image) else it for it in item)


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
