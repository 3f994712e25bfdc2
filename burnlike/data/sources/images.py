"""Folders of images, for classification and for segmentation; scikit-learn's digits.

The meaning of a pixel's number depends on Pillow's mode and on the format: each pair that is known is scaled to 0..1 by
its own largest number, and all others are refused by name.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..._regular_file import open_regular
from ...errors import DataError
from ..dataset import FileFingerprint, Fingerprint, Fingerprinted, TensorDataset
from ..transforms.datasets import SelectionDataset
from .configs import DigitsConfig, ImageFolderConfig
from .splits import Splits, Unlabeled, existing, shown, split, visible

EXTENSIONS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
"""The parsers of Pillow that a file is given to, whatever it is called."""

MASK_FORMATS = ("PNG", "BMP", "TIFF", "PPM")
"""JPEG and WebP change numbers; programs that write GIF number the colours of each image anew."""

_EIGHT_BITS = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")
"""Modes of 8 bits a channel that Pillow converts to RGB and to grey."""

_PREMULTIPLIED = {"La": "LA", "RGBa": "RGBA"}

_MASKS = ("1", "L", "P")

_TURNED = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
"""By the Orientation of EXIF, what shows the image upright (CIPA DC-008, 4.6.5.1.6)."""

_ORIENTATION = 0x112
_BITS_PER_SAMPLE, _PHOTOMETRIC, _SAMPLE_FORMAT = 258, 262, 339
_WHITE_IS_ZERO = 0
_UNSIGNED = (1, 4)
"""Sample formats of TIFF: whole numbers that are not negative, and those that are not defined."""


def read_image(path: Path, mode: str, size: tuple[int, int] | None) -> Tensor:
    """An image, upright, as `[channels, height, width]` float32 in 0..1; of several frames the first.

    Numbers of 8 bits are divided by 255, of 16 bits by 65535; floating point numbers are taken as they are. An alpha
    channel is left out.

    Args:
        path: a regular file in one of `FORMATS`.
        mode: `RGB` or `L` (grey).
        size: height and width to resize to, bilinear.

    Raises:
        DataError: it can't be read, its numbers have no known largest one, or floating point numbers leave 0..1.
    """
    return _read_image(path, mode, size)[0]


def _read_image(path: Path, mode: str, size: tuple[int, int] | None) -> tuple[Tensor, list[int]]:
    """`read_image`, and the height and width before it is resized."""
    with _opened(path) as (pillow, image, _):
        shape = [image.height, image.width]
        if image.mode in _EIGHT_BITS or image.mode in _PREMULTIPLIED:
            _check_unsigned(path, image)
            shown = _resized(_in_eight_bits(image, mode), size, pillow.Resampling.BILINEAR)
            return _pixels(shown, torch.uint8).permute(2, 0, 1).float() / 255, shape
        grey = _grey(path, image, size, pillow.Resampling.BILINEAR)
        return grey.permute(2, 0, 1).repeat(3 if mode == "RGB" else 1, 1, 1), shape


def read_picture(path: Path) -> Any:
    """An image of Pillow, upright, in RGB of 8 bits: what `read_image` gives, as other libraries take it."""
    with _opened(path) as (pillow, image, _):
        if image.mode in _EIGHT_BITS or image.mode in _PREMULTIPLIED:
            _check_unsigned(path, image)
            return _in_eight_bits(image, "RGB")
        grey = _grey(path, image, None, None)[..., 0]
        return pillow.fromarray((grey * 255).round().byte().numpy()).convert("RGB")


def _grey(path: Path, image: Any, size: tuple[int, int] | None, resample: Any) -> Tensor:
    """An image of one channel with more than 8 bits as `[height, width, 1]` in 0..1."""
    largest = _largest(path, image)
    values = _pixels(image.convert("F"), torch.float32)
    if not ((values >= 0) & (values <= largest)).all():
        raise DataError(
            f"{path}: expected pixels in 0..{largest:g}, got {values.min().item():g}..{values.max().item():g}"
            f" (the mode {image.mode})"
        )
    grey = _pixels(_resized(image.convert("F"), size, resample), torch.float32) / largest
    # 0 is white, which Pillow minds only in images of up to 8 bits.
    is_inverted = getattr(image, "tag_v2", {}).get(_PHOTOMETRIC) == _WHITE_IS_ZERO
    return (1 - grey if is_inverted else grey).clamp(0, 1)


def read_mask(path: Path, size: tuple[int, int] | None, shape: Sequence[int] | None = None) -> Tensor:
    """A mask, upright as its image, as `[height, width]` int64 classes: the values of its pixels.

    Of an image with a palette they are its indices; of one with 1, 2 or 4 bits 0 and 1, 0 to 3 or 0 to 15.

    Args:
        path: a regular file in one of `MASK_FORMATS`.
        size: height and width to resize to, by the nearest pixel.
        shape: height and width of its image; None where it is not known. A mask that is resized may be smaller.

    Raises:
        DataError: it can't be read, has several channels or more than 8 bits, is in another format, or not of `shape`.
    """
    with _opened(path) as (pillow, image, largest):
        if image.format not in MASK_FORMATS:
            raise DataError(
                f"{path}: expected a mask in {', '.join(MASK_FORMATS)}, which keep the numbers of classes, got"
                f" {image.format}; convert it"
            )
        if image.mode not in _MASKS:
            raise DataError(f"{path}: expected a mask of one channel of 8 bits, got the mode {image.mode}")
        height, width = shape or (image.height, image.width)
        if (size is None and (height, width) != (image.height, image.width)) or (
            abs(image.height * width - image.width * height) > max(height, width)  # of sides rounded to pixels
        ):
            raise DataError(
                f"{path}: expected a mask of {[height, width]} pixels, as its image, turned upright, has, got"
                f" {[image.height, image.width]}"
            )
        _check_unsigned(path, image)
        shown = _resized(image.convert("L") if image.mode == "1" else image, size, pillow.Resampling.NEAREST)
        return (_pixels(shown, torch.uint8).squeeze(2).long() * largest + 127) // 255


def image_size(path: Path) -> tuple[int, int]:
    """Height and width of an image, as its file says before it is turned upright; its pixels are not read."""
    with _parsed(path) as (_, image):
        return image.height, image.width


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Any, int]]:
    """Pillow's module, the image that the file shows, decoded and turned upright, and the class that 255 stands for."""
    with _parsed(path) as (pillow, image):
        limit = pillow.MAX_IMAGE_PIXELS
        # Pillow itself warns of such an image, and refuses one of twice as many pixels.
        if limit is not None and image.width * image.height > limit:
            raise pillow.DecompressionBombError(f"it has {image.width} x {image.height} pixels")
        # Before load(), after which the image does not say any more how its pixels were packed.
        largest = _largest_class(image)
        image.load()
        turn = _TURNED.get(image.getexif().get(_ORIENTATION, 1))
        yield pillow, image if turn is None else _turned(pillow, image, turn), largest


@contextmanager
def _parsed(path: Path) -> Iterator[tuple[Any, Any]]:
    """Pillow's module and the image of a file, not yet decoded; what goes wrong with it is a DataError."""
    pillow = pil_image()
    try:
        with open_regular(path) as file, pillow.open(file, formats=FORMATS) as image:
            yield pillow, image
    except DataError:
        raise
    except pillow.UnidentifiedImageError as error:
        raise DataError(
            f"{path} can't be read as an image: expected one of {', '.join(FORMATS)}, with pixels that Pillow reads"
        ) from error
    except (pillow.DecompressionBombError, pillow.DecompressionBombWarning) as error:
        raise DataError(
            f"{path} can't be read as an image: {error}; more than {pillow.MAX_IMAGE_PIXELS} pixels may be a"
            " decompression bomb. Make it smaller, or set PIL.Image.MAX_IMAGE_PIXELS"
        ) from error
    except Exception as error:  # damaged files make Pillow's parsers raise exceptions of many kinds
        raise DataError(f"{path} can't be read as an image: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _turned(pillow: Any, image: Any, turn: str) -> Any:
    turned = image.transpose(getattr(pillow.Transpose, turn))
    # transpose() leaves out both, by which `_largest` knows the range of the pixels.
    turned.format = image.format
    if hasattr(image, "tag_v2"):
        turned.tag_v2 = image.tag_v2
    return turned


def _largest_class(image: Any) -> int:
    """The sample that 255 stands for in the decoded image: Pillow stretches those of few bits."""
    if image.mode == "1":
        return 1
    arguments = image.tile[0][3] if image.tile else ""  # of the decoder; forgotten once it has run
    arguments = arguments if isinstance(arguments, tuple) else (arguments,)
    if image.format == "PPM":
        return min(arguments[-1], 255) if isinstance(arguments[-1], int) else 255
    few_bits = re.match(r"L;([24])", str(arguments[0]))
    return 2 ** int(few_bits[1]) - 1 if few_bits else 255


def _in_eight_bits(image: Any, mode: str) -> Any:
    if image.mode in _PREMULTIPLIED:
        image = image.convert(_PREMULTIPLIED[image.mode])
    elif image.mode == "P" and isinstance(image.info.get("transparency"), bytes):
        image = image.convert("RGBA")  # the colours are the same; the direct way warns of the lost transparency
    return image.convert(mode)


def _largest(path: Path, image: Any) -> float:
    """The number that stands for 1.0 in an image of one channel with more than 8 bits."""
    kind = image.format, image.mode
    if kind in (("PNG", "I;16"), ("PNG", "I;16B"), ("PNG", "I"), ("PPM", "I"), ("PPM", "I;16"), ("PPM", "I;16B")):
        return 65535.0
    if kind in (("TIFF", "I;16"), ("TIFF", "I;16B")):
        _check_unsigned(path, image)
        return 2.0 ** image.tag_v2.get(_BITS_PER_SAMPLE, (16,))[0] - 1
    if kind in (("TIFF", "F"), ("PPM", "F")):
        return 1.0
    raise DataError(
        f"{path}: expected pixels of 8 or 16 bits, or floating point numbers in 0..1, got {image.format} with the mode"
        f" {image.mode}, whose largest number is not known; save it in another way"
    )


def _check_unsigned(path: Path, image: Any) -> None:
    """Refuse TIFF with negative numbers, which Pillow reads as large ones."""
    formats = getattr(image, "tag_v2", {}).get(_SAMPLE_FORMAT, _UNSIGNED[:1])
    if any(it not in _UNSIGNED for it in formats):
        raise DataError(f"{path}: expected numbers without a sign, got the sample format {formats[0]} of TIFF")


def _resized(image: Any, size: tuple[int, int] | None, resample: Any) -> Any:
    return image if size is None else image.resize((size[1], size[0]), resample)


def _pixels(image: Any, dtype: torch.dtype) -> Tensor:
    """`[height, width, channels]`."""
    return torch.frombuffer(bytearray(image.tobytes()), dtype=dtype).view(image.height, image.width, -1)


def pil_image() -> Any:
    """The module `PIL.Image`; a DataError that names the extra where it is not installed."""
    try:
        from PIL import Image
    except ImportError as error:
        raise DataError("images need Pillow: pip install 'burnlike[images]'") from error
    return Image


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
            items += [(image, number) for image in images]
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
        image, shape = _read_image(path, self.mode, self.size)
        if isinstance(target, Path):
            target = read_mask(target, self.size, shape)
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
        """The items and classes, the sizes of the files, and how many can't be read."""
        items = self.images.items[:: -(-len(self.images) // _MEASURED)]
        sizes: list[tuple[int, int]] = []
        unread: list[DataError] = []
        for path, _ in items:
            try:
                sizes.append(image_size(path))
            except DataError as error:
                unread.append(error)
        if not sizes:
            raise unread[0]
        sizes.sort(key=lambda it: it[0] * it[1])
        more = [f"unread    {len(unread)} of {len(items)}: {unread[0]}"] if unread else []
        least, middle, most = (f"{it[0]} x {it[1]}" for it in (sizes[0], sizes[len(sizes) // 2], sizes[-1]))
        read = f", read as {self.images.size[0]} x {self.images.size[1]}" if self.images.size else ""
        return [*super().describe(), f"sizes     {least} to {most} (height x width), median {middle}{read}", *more]

    def examples(self, count: int) -> list[str]:
        train, lines = self.train, []
        for index in range(min(count, len(train))):
            place = train.indices[index] if isinstance(train, SelectionDataset) else index
            path, target = self.images.items[place]
            label = self.images.classes[target] if isinstance(target, int) else str(target)
            try:
                pixels = shown(train[index][0])
            except DataError:
                pixels = "can't be read"
            lines.append(f"{path}: {label}; {pixels}")
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
    folders = {name: existing(root, name, "directory") for name, root in roots.items() if root is not None}

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
