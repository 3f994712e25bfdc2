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
    import torch

    from .fold import Fold4d, Unfold4d
    from .pixel_shuffle import PixelShuffle, PixelUnshuffle


class Unfold4dConfig(ModuleConfig, tag="Unfold4d"):
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

    def init(self, device: "torch.device | str | None" = None) -> "Unfold4d":
        from .fold import Unfold4d

        return Unfold4d(self, device)


class Fold4dConfig(ModuleConfig, tag="Fold4d"):
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

    def init(self, device: "torch.device | str | None" = None) -> "Fold4d":
        from .fold import Fold4d

        return Fold4d(self, device)


class PixelShuffleConfig(ModuleConfig, tag="PixelShuffle"):
    """Groups of channels as the pixels of a larger image (Shi et al. 2016).

    Attributes:
        upscale_factor: of height and width.
    """

    upscale_factor: Size

    def init(self, device: "torch.device | str | None" = None) -> "PixelShuffle":
        from .pixel_shuffle import PixelShuffle

        return PixelShuffle(self, device)


class PixelUnshuffleConfig(ModuleConfig, tag="PixelUnshuffle"):
    """Squares of pixels as channels of a smaller image, the inverse of PixelShuffle (Shi et al. 2016).

    Attributes:
        downscale_factor: by which height and width are divided.
    """

    downscale_factor: Size

    def init(self, device: "torch.device | str | None" = None) -> "PixelUnshuffle":
        from .pixel_shuffle import PixelUnshuffle

        return PixelUnshuffle(self, device)
