"""The configs of the layers that rearrange windows and pixels. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...config import ModuleConfig
from ...config.bounds import Size
from ..padding import (
    Size2d,
    SizeOrZero2d,
    each,
    span,
)

if TYPE_CHECKING:
    from .fold import Fold4d, Unfold4d
    from .pixel_shuffle import PixelShuffle, PixelUnshuffle


class Unfold4dConfig(ModuleConfig["Unfold4d"], tag="Unfold4d", builds=".fold"):
    """Windows of an image as columns of a matrix (im2col).

    Attributes:
        kernel_size: of the window; one size, or `[height, width]`, as in the sizes below.
        stride: from one window to the next.
        dilation: from one element of a window to the next.
        padding: zeros at both ends.
    """

    kernel_size: Size2d
    stride: Size2d = 1
    dilation: Size2d = 1
    padding: SizeOrZero2d = 0


class Fold4dConfig(ModuleConfig["Fold4d"], tag="Fold4d", builds=".fold"):
    """An image from the columns of a matrix (col2im): where windows overlap, their elements are added.

    Attributes:
        output_size: of the image; one size, or `[height, width]`, as in the sizes below.
        kernel_size: of the window.
        stride: from one window to the next.
        dilation: from one element of a window to the next.
        padding: how much of the image is cut off at both ends.
    """

    output_size: Size2d
    kernel_size: Size2d
    stride: Size2d = 1
    dilation: Size2d = 1
    padding: SizeOrZero2d = 0

    def validate(self) -> Iterable[tuple[str, str]]:
        covered = span(each(self.kernel_size, 2), each(self.dilation, 2))
        for size, pad, needed in zip(each(self.output_size, 2), each(self.padding, 2), covered, strict=True):
            if size + 2 * pad < needed:
                yield (
                    "output_size",
                    f"expected {needed} or more with the padding, as the kernel covers, got {size + 2 * pad}",
                )


class PixelShuffleConfig(ModuleConfig["PixelShuffle"], tag="PixelShuffle", builds=".pixel_shuffle"):
    """Groups of channels as the pixels of a larger image (Shi et al. 2016).

    Attributes:
        upscale_factor: of height and width.
    """

    upscale_factor: Size


class PixelUnshuffleConfig(ModuleConfig["PixelUnshuffle"], tag="PixelUnshuffle", builds=".pixel_shuffle"):
    """Squares of pixels as channels of a smaller image, the inverse of PixelShuffle (Shi et al. 2016).

    Attributes:
        downscale_factor: by which height and width are divided.
    """

    downscale_factor: Size
