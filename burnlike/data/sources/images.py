"""Folders of images: for classification and for segmentation."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import DataError
from .splits import Splits, existing, fingerprint_of, split

EXTENSIONS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")


def read_image(path: Path, mode: str, size: tuple[int, int] | None, *, is_mask: bool = False) -> Tensor:
    """An image as `[channels, height, width]` uint8, or a mask as `[height, width]` int64.

    Args:
        path: any format that Pillow reads.
        mode: `RGB` or `L` (grey).
        size: height and width to resize to: images bilinear, masks by the nearest pixel.
        is_mask: take the values of the pixels as classes; of an image with a palette its indices.

    Raises:
        DataError: it can't be read.
    """
    pillow = _pillow()
    try:
        with pillow.open(path) as image:
            if is_mask and image.mode not in ("P", "L", "1"):
                raise DataError(f"{path}: expected a mask of one channel of 8 bits, got the mode {image.mode}")
            shown = image.convert("L") if is_mask and image.mode == "1" else image if is_mask else image.convert(mode)
            if size is not None:
                resample = pillow.Resampling.NEAREST if is_mask else pillow.Resampling.BILINEAR
                shown = shown.resize((size[1], size[0]), resample)
            data = torch.frombuffer(bytearray(shown.tobytes()), dtype=torch.uint8)
            height, width = shown.height, shown.width
    except (OSError, ValueError, SyntaxError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} can't be read as an image: {error}") from error
    return data.view(height, width).long() if is_mask else data.view(height, width, -1).permute(2, 0, 1)


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise DataError("folders of images need Pillow: pip install 'burnlike[images]'") from error
    return Image


class ImageFolderDataset:
    """Images with their targets, read when they are asked for: `(float32 [channels, height, width] in 0..1, target)`.

    Attributes:
        classes: the names of the classes by number; empty for segmentation.
    """

    draws = False

    def __init__(
        self,
        items: Sequence[tuple[Path, Any]],
        *,
        mode: str = "RGB",
        size: tuple[int, int] | None = None,
        classes: Sequence[str] = (),
        augment: Callable[[Tensor], Tensor] | None = None,
        fingerprint: str | None = None,
    ) -> None:
        """Take the paths of images with their targets: a number, or the path of a mask."""
        self.items = list(items)
        self.mode = mode
        self.size = size
        self.classes = list(classes)
        self.augment = augment
        self.draws = augment is not None
        self.fingerprint = fingerprint

    @classmethod
    def classification(cls, path: Path, **options: Any) -> "ImageFolderDataset":
        """A folder for each class, in the order of their names, with images in it at any depth.

        Raises:
            DataError: there are no such folders, or one has no image.
        """
        classes = sorted(it.name for it in path.iterdir() if it.is_dir() and not it.name.startswith("."))
        if not classes:
            raise DataError(f"{path}: expected a folder for each class with images in it, got no folder")
        items = []
        for number, name in enumerate(classes):
            found = images_in(path / name)
            if not found:
                raise DataError(f"{path / name}: expected images ({', '.join(EXTENSIONS)}), got none")
            items += [(it, number) for it in found]
        return cls(items, classes=classes, **options)

    @classmethod
    def segmentation(cls, images: Path, masks: Path, **options: Any) -> "ImageFolderDataset":
        """Images, and masks with the same names in another folder; the extensions may differ.

        Raises:
            DataError: there are no images, or one has no mask.
        """
        by_name = {it.relative_to(masks).with_suffix(""): it for it in images_in(masks)}
        items = []
        for image in images_in(images):
            name = image.relative_to(images).with_suffix("")
            if name not in by_name:
                raise DataError(f"{image} has no mask: expected {masks / name} with the extension of an image")
            items.append((image, by_name[name]))
        if not items:
            raise DataError(f"{images}: expected images ({', '.join(EXTENSIONS)}), got none")
        return cls(items, **options)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int, /) -> tuple[Tensor, Any]:
        """The image and its target: a class, or `[height, width]` int64 classes.

        Raises:
            DataError: a file can't be read.
        """
        path, target = self.items[index]
        image = read_image(path, self.mode, self.size).float() / 255
        if isinstance(target, Path):
            target = read_image(target, "L", self.size, is_mask=True)
        return (image if self.augment is None else self.augment(image)), target


def images_in(path: Path) -> list[Path]:
    """The images in a folder at any depth, sorted by name, without hidden ones."""
    found = (it for it in path.rglob("*") if it.suffix.lower() in EXTENSIONS and it.is_file())
    return sorted(it for it in found if not any(part.startswith(".") for part in it.relative_to(path).parts))


def image_splits(
    path: str, masks: str | None, validation_path: str | None, validation_fraction: float, seed: int, **options: Any
) -> Splits:
    """The images of a folder in parts.

    Raises:
        DataError: a folder is missing, or has not what was expected.
    """

    def dataset(folder: str, name: str) -> ImageFolderDataset:
        found = existing(folder, name)
        if masks is None:
            return ImageFolderDataset.classification(found, **options)
        return ImageFolderDataset.segmentation(found, existing(masks, "data.masks"), **options)

    whole = dataset(path, "data.path")
    files = [it for it, _ in whole.items]
    whole.fingerprint = fingerprint_of(files, options, validation_fraction, seed)
    if validation_path is None:
        train, valid = split(whole, validation_fraction, seed, path)
        return Splits(train, valid, fingerprint=whole.fingerprint)
    valid = dataset(validation_path, "data.validation_path")
    if valid.classes != whole.classes:
        raise DataError(
            f"{validation_path}: expected the classes of the training, {whole.classes}, got {valid.classes}"
        )
    return Splits(whole, valid, fingerprint=whole.fingerprint)
