"""Folders of images, for classification and for segmentation; scikit-learn's digits."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import DataError
from ..dataset import FileFingerprint, Fingerprint, Fingerprinted, TensorDataset
from ..transforms.datasets import SelectionDataset
from .configs import DigitsConfig, ImageFolderConfig
from .image_files import EXTENSIONS, image_size, read_image, read_mask
from .splits import Splits, Unlabeled, existing, shown, split, visible


class ImageFolderDataset(Fingerprinted):
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
        fingerprint: Fingerprint = None,
    ) -> None:
        """Take the paths of images with their targets: a number, the path of a mask, or None for one that is empty."""
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
            images = images_in(path / name)
            if not images:
                raise DataError(f"{path / name}: expected images ({', '.join(EXTENSIONS)}), got none")
            items += [(it, number) for it in images]
        return cls(items, classes=classes, **options)

    @classmethod
    def segmentation(cls, images: Path, masks: Path, **options: Any) -> "ImageFolderDataset":
        """Images, and masks with the same names in another folder; the extensions may differ.

        Raises:
            DataError: there are no images, one has no mask, or two have one name.
        """
        by_name = _by_name(masks)
        items = []
        for name, image in _by_name(images).items():
            if name not in by_name:
                raise DataError(f"{image} has no mask: expected {masks / name} with the extension of an image")
            items.append((image, by_name[name]))
        if not items:
            raise DataError(f"{images}: expected images ({', '.join(EXTENSIONS)}), got none")
        return cls(items, **options)

    @property
    def targets(self) -> list[int] | None:
        """The classes of the images; None for segmentation."""
        labels = [it for _, it in self.items if isinstance(it, int)]
        return labels if len(labels) == len(self.items) else None

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int, /) -> tuple[Tensor, Any]:
        """The image and its target: a class, or `[height, width]` int64 classes."""
        path, target = self.items[index]
        image = read_image(path, self.mode, self.size)
        if isinstance(target, Path):
            mask = read_mask(target, self.size)
            if mask.shape != image.shape[1:]:
                raise DataError(
                    f"{target}: expected a mask of {list(image.shape[1:])} pixels, as {path} has, got"
                    f" {list(mask.shape)}"
                )
            target = mask
        elif target is None:
            target = torch.zeros(image.shape[1:], dtype=torch.int64)
        return (image if self.augment is None else self.augment(image)), target


_MEASURED = 2000
"""Images whose sizes are looked at."""


class ImageSplits(Splits):
    """The images of a folder in parts; its description says their sizes, and its examples their files.

    Attributes:
        images: all of them, without those of `validation_path`.
    """

    images: ImageFolderDataset

    def describe(self) -> list[str]:
        """The items and classes, and the sizes of the files."""
        items = self.images.items[:: -(-len(self.images) // _MEASURED)]
        sizes = sorted((image_size(path) for path, _ in items), key=lambda it: it[0] * it[1])
        least, middle, most = (f"{it[0]} x {it[1]}" for it in (sizes[0], sizes[len(sizes) // 2], sizes[-1]))
        read = f", read as {self.images.size[0]} x {self.images.size[1]}" if self.images.size else ""
        return [*super().describe(), f"sizes     {least} to {most} (height x width), median {middle}{read}"]

    def examples(self, count: int) -> list[str]:
        train, lines = self.train, []
        for index in range(min(count, len(train))):
            place = train.indices[index] if isinstance(train, SelectionDataset) else index
            path, target = self.images.items[place]
            label = self.images.classes[target] if isinstance(target, int) else str(target)
            lines.append(f"{path}: {label}; {shown(train[index][0])}")
        return lines


def images_in(path: Path) -> list[Path]:
    """The images in a folder at any depth, sorted by name, without hidden ones."""
    return [it for it in visible(path) if it.suffix.lower() in EXTENSIONS and it.is_file()]


def _by_name(folder: Path) -> dict[Path, Path]:
    """The images in a folder by their names below it, without extensions."""
    mask_of: dict[Path, Path] = {}
    for image in images_in(folder):
        name = image.relative_to(folder).with_suffix("")
        if name in mask_of:
            raise DataError(f"{mask_of[name]} and {image}: expected one file of the name '{name}', got two")
        mask_of[name] = image
    return mask_of


def image_splits(config: ImageFolderConfig) -> ImageSplits:
    """The images of a folder in parts."""
    fraction, seed, options = config.validation_fraction, config.split_seed, {"mode": config.mode, "size": config.size}
    roots = {"data.path": config.path, "data.masks": config.masks, "data.validation_path": config.validation_path}
    folders = {name: existing(it, name, "directory") for name, it in roots.items() if it is not None}

    def dataset(name: str) -> ImageFolderDataset:
        if config.masks is None:
            return ImageFolderDataset.classification(folders[name], **options)
        return ImageFolderDataset.segmentation(folders[name], folders["data.masks"], **options)

    whole = dataset("data.path")
    valid = None if config.validation_path is None else dataset("data.validation_path")
    files = {}
    for name, part in (("data.path", whole), ("data.validation_path", valid)):
        for image, target in [] if part is None else part.items:
            files[f"{name}/{image.relative_to(folders[name]).as_posix()}"] = image
            if isinstance(target, Path):
                files[f"data.masks/{target.relative_to(folders['data.masks']).as_posix()}"] = target
    whole.fingerprint = fingerprint = FileFingerprint(files, options, fraction, seed)
    if valid is not None and valid.classes != whole.classes:
        raise DataError(
            f"{config.validation_path}: expected the classes of the training, {whole.classes}, got {valid.classes}"
        )
    parts: Any = split(whole, fraction, seed, config.path) if valid is None else (whole, valid)
    splits = ImageSplits(*parts, fingerprint=fingerprint, classes=whole.classes or None)
    splits.images = whole
    return splits


def new_images(config: ImageFolderConfig, sources: Sequence[Any]) -> Unlabeled:
    """Images without targets, read as those of the training: files, all in folders, and those that a text stream names,
    one a line; a DataError if there is no such file.
    """
    paths: list[Path] = []
    for source in sources:
        if not isinstance(source, Path):
            named = [Path(line.strip()).expanduser() for line in source if line.strip()]
        else:
            named = images_in(source) if source.is_dir() else [source]
            if not named:
                raise DataError(f"{source}: expected images ({', '.join(EXTENSIONS)}), got none")
        paths += named
    for path in paths:
        existing(str(path), "an image", "file")
    target = 0 if config.masks is None else None
    size: Any = config.size
    dataset = ImageFolderDataset([(it, target) for it in paths], mode=config.mode, size=size)
    return Unlabeled(dataset, [*map(str, paths)])


def digits(config: DigitsConfig) -> Splits:
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise DataError("type: Digits needs scikit-learn: pip install scikit-learn") from error
    digits: Any = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32) / 16
    images = images.flatten(1) if config.flat else images.unsqueeze(1)
    name = f"digits {config.to_dict()}"
    data = TensorDataset(images, torch.tensor(digits.target), fingerprint=name)
    splits = {}
    rest = data
    if config.test_fraction > 0:
        rest, splits["test"] = split(data, config.test_fraction, config.split_seed, "digits")
    train, valid = split(rest, config.validation_fraction, config.split_seed + 1, "digits")
    return Splits(train, valid, splits=splits, fingerprint=name, classes=[*"0123456789"])
