"""Reads one image, or one mask, from a file.

What a pixel's number means depends on Pillow's mode and on the format: each pair that is known is scaled to 0..1 by
its own largest number, and all others are refused by name.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..._regular_file import open_regular
from ...errors import DataError

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
    with _opened(path) as (pillow, image, _):
        if image.mode in _EIGHT_BITS or image.mode in _PREMULTIPLIED:
            _check_unsigned(path, image)
            shown = _resized(_in_eight_bits(image, mode), size, pillow.Resampling.BILINEAR)
            return _pixels(shown, torch.uint8).permute(2, 0, 1).float() / 255
        largest = _largest(path, image)
        values = _pixels(image.convert("F"), torch.float32)
        if not ((values >= 0) & (values <= largest)).all():
            raise DataError(
                f"{path}: expected pixels in 0..{largest:g}, got {values.min().item():g}..{values.max().item():g}"
                f" (the mode {image.mode})"
            )
        grey = _pixels(_resized(image.convert("F"), size, pillow.Resampling.BILINEAR), torch.float32) / largest
        # 0 is white, which Pillow minds only in images of up to 8 bits.
        is_inverted = getattr(image, "tag_v2", {}).get(_PHOTOMETRIC) == _WHITE_IS_ZERO
        grey = 1 - grey if is_inverted else grey
        return grey.permute(2, 0, 1).clamp(0, 1).repeat(3 if mode == "RGB" else 1, 1, 1)


def read_mask(path: Path, size: tuple[int, int] | None) -> Tensor:
    """A mask, upright as its image, as `[height, width]` int64 classes: the values of its pixels.

    Of an image with a palette they are its indices; of one with 1, 2 or 4 bits 0 and 1, 0 to 3 or 0 to 15.

    Args:
        path: a regular file in one of `MASK_FORMATS`.
        size: height and width to resize to, by the nearest pixel.

    Raises:
        DataError: it can't be read, has several channels or more than 8 bits, or is in another format.
    """
    with _opened(path) as (pillow, image, largest):
        if image.format not in MASK_FORMATS:
            raise DataError(
                f"{path}: expected a mask in {', '.join(MASK_FORMATS)}, which keep the numbers of classes, got"
                f" {image.format}; convert it"
            )
        if image.mode not in _MASKS:
            raise DataError(f"{path}: expected a mask of one channel of 8 bits, got the mode {image.mode}")
        _check_unsigned(path, image)
        shown = _resized(image.convert("L") if image.mode == "1" else image, size, pillow.Resampling.NEAREST)
        return (_pixels(shown, torch.uint8).squeeze(2).long() * largest + 127) // 255


def image_size(path: Path) -> tuple[int, int]:
    """Height and width of an image, as its file says before it is turned upright; its pixels are not read."""
    pillow = pil_image()
    try:
        with open_regular(path) as file, pillow.open(file, formats=FORMATS) as image:
            return image.height, image.width
    except Exception as error:  # as of `_opened`
        raise DataError(f"{path} can't be read as an image: {_reason(error)}") from error


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Any, int]]:
    """Pillow's module, the image that the file shows, decoded and turned upright, and the class that 255 stands for."""
    pillow = pil_image()
    try:
        with open_regular(path) as file, pillow.open(file, formats=FORMATS) as image:
            limit = pillow.MAX_IMAGE_PIXELS
            if limit is not None and image.width * image.height > limit:
                raise pillow.DecompressionBombError(f"it has {image.width} x {image.height} pixels")
            largest = _largest_class(image)
            image.load()
            turn = _TURNED.get(image.getexif().get(_ORIENTATION, 1))
            yield pillow, image if turn is None else _turned(pillow, image, turn), largest
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
