"""The configs of convolutions, and of the layers that rearrange pixels and windows. Imports no torch."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ...config import ModuleConfig
from ...config.bounds import CountOrZero, Size
from ...config.roles import Built
from ..initializers.configs import Initializer, KaimingUniform
from ..padding import (
    PaddingConfig1d,
    PaddingConfig2d,
    PaddingConfig3d,
    Size2d,
    Size3d,
    SizeOrZero2d,
    SizeOrZero3d,
    each,
    even_kernel,
    span,
)
from ..roles import LayerFacts

if TYPE_CHECKING:
    from . import conv, windows


class _ConvConfig(ModuleConfig[Built]):
    """The fields that all convolutions have.

    Attributes:
        channels: of input and output, `[in, out]`.
        channels_in: of the input.
        channels_out: of the output.
        kernel_size: of the window; one size, or one for each dimension, such as `[height, width]`, as in the other
            sizes.
        stride: from one window to the next.
        dilation: from one element of a window to the next; `Same` does not count it, as in Burn.
        groups: into which the channels are divided; each is convolved by itself.
        bias: whether a bias is added.
        initializer: of weight and bias.
    """


class Conv1dConfig(_ConvConfig["conv.Conv1d"], tag="Conv1d"):
    """Convolution over one dimension.

    Attributes:
        padding: `Valid` (none), `Same` (ceil(size / stride) outputs), one size for both ends, or `[left, right]`.
    """

    facts = LayerFacts(channels=("channels_in", "channels_out"))

    channels_in: Size
    channels_out: Size
    kernel_size: Size
    stride: Size = 1
    dilation: Size = 1
    groups: Size = 1
    padding: PaddingConfig1d = "Valid"
    bias: bool = True
    initializer: Initializer = KaimingUniform()

    def validate(self) -> Iterable[tuple[str, str]]:
        yield from _divided(self.channels_in, self.channels_out, self.groups)


class _ConvNdConfig(_ConvConfig[Built]):
    """The fields of convolutions over several dimensions."""

    facts = LayerFacts(channels=("channels.0", "channels.1"))

    channels: tuple[Size, Size]
    kernel_size: Any
    stride: Any = 1
    dilation: Any = 1
    groups: Size = 1
    padding: Any = "Valid"
    bias: bool = True
    initializer: Initializer = KaimingUniform()

    def validate(self) -> Iterable[tuple[str, str]]:
        yield from _divided(*self.channels, self.groups)


class Conv2dConfig(_ConvNdConfig["conv.Conv2d"], tag="Conv2d"):
    """Convolution over height and width.

    Attributes:
        padding: `Valid` (none), `Same` (ceil(size / stride) outputs), one size for all sides, or
            `[top, left, bottom, right]`.
    """

    kernel_size: Size2d
    stride: Size2d = 1
    dilation: Size2d = 1
    padding: PaddingConfig2d = "Valid"


class Conv3dConfig(_ConvNdConfig["conv.Conv3d"], tag="Conv3d"):
    """Convolution over depth, height and width.

    Attributes:
        padding: `Valid` (none), `Same` (ceil(size / stride) outputs; odd kernels only), one size for all sides, or
            `[depth, height, width]`, each for both ends.
    """

    kernel_size: Size3d
    stride: Size3d = 1
    dilation: Size3d = 1
    padding: PaddingConfig3d = "Valid"

    def validate(self) -> Iterable[tuple[str, str]]:
        yield from super().validate()
        yield from even_kernel(self.padding, self.kernel_size)


class _ConvTransposeConfig(_ConvConfig[Built]):
    """The fields of transposed convolutions.

    Attributes:
        stride: from the window of one input element to that of the next.
        dilation: from one element of a window to the next.
        padding: how many elements of the result are cut off at both ends.
        padding_out: how many are added at the end; torch's `output_padding`, of any size.
    """

    facts = LayerFacts(channels=("channels.0", "channels.1"))

    channels: tuple[Size, Size]
    kernel_size: Any
    stride: Any = 1
    dilation: Any = 1
    groups: Size = 1
    padding: Any = 0
    padding_out: Any = 0
    bias: bool = True
    initializer: Initializer = KaimingUniform()

    def validate(self) -> Iterable[tuple[str, str]]:
        yield from _divided(*self.channels, self.groups)


class ConvTranspose1dConfig(_ConvTransposeConfig["conv.ConvTranspose1d"], tag="ConvTranspose1d"):
    """Transposed convolution over one dimension: the gradient of a convolution with respect to its input."""

    kernel_size: Size
    stride: Size = 1
    dilation: Size = 1
    padding: CountOrZero = 0
    padding_out: CountOrZero = 0


class ConvTranspose2dConfig(_ConvTransposeConfig["conv.ConvTranspose2d"], tag="ConvTranspose2d"):
    """Transposed convolution over height and width: the gradient of a convolution with respect to its input."""

    kernel_size: Size2d
    stride: Size2d = 1
    dilation: Size2d = 1
    padding: SizeOrZero2d = 0
    padding_out: SizeOrZero2d = 0


class ConvTranspose3dConfig(_ConvTransposeConfig["conv.ConvTranspose3d"], tag="ConvTranspose3d"):
    """Transposed convolution over depth, height and width: the gradient of a convolution with respect to its input."""

    kernel_size: Size3d
    stride: Size3d = 1
    dilation: Size3d = 1
    padding: SizeOrZero3d = 0
    padding_out: SizeOrZero3d = 0


class DeformConv2dConfig(_ConvConfig["conv.DeformConv2d"], tag="DeformConv2d"):
    """Convolution that reads at moved places (Dai et al. 2017; with masks, Zhu et al. 2018).

    Attributes:
        weight_groups: into which the channels are divided; each is convolved by itself.
        offset_groups: into which the channels of the input are divided; each has its own offsets.
        padding: `Valid` (none), `Same` (ceil(size / stride) outputs; odd kernels only), one size for all sides, or
            `[top, left, bottom, right]`, with the same at both ends.
    """

    facts = LayerFacts(inputs=(2, 3))

    channels: tuple[Size, Size]
    kernel_size: Size2d
    stride: Size2d = 1
    dilation: Size2d = 1
    weight_groups: Size = 1
    offset_groups: Size = 1
    padding: PaddingConfig2d = "Valid"
    bias: bool = True
    initializer: Initializer = KaimingUniform()

    def validate(self) -> Iterable[tuple[str, str]]:
        yield from _divided(*self.channels, self.weight_groups, "weight_groups")
        if self.channels[0] % self.offset_groups:
            yield "offset_groups", f"expected a divisor of channels.0 ({self.channels[0]}), got {self.offset_groups}"
        yield from even_kernel(self.padding, self.kernel_size)
        if isinstance(self.padding, tuple) and self.padding[:2] != self.padding[2:]:
            yield "padding", f"expected the same at top and bottom, and at left and right, got {list(self.padding)}"


def _divided(channels_in: int, channels_out: int, groups: int, name: str = "groups") -> Iterator[tuple[str, str]]:
    if channels_in % groups or channels_out % groups:
        yield name, f"expected a divisor of both channels ({channels_in} and {channels_out}), got {groups}"


class Unfold4dConfig(ModuleConfig["windows.Unfold4d"], tag="Unfold4d"):
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


class Fold4dConfig(ModuleConfig["windows.Fold4d"], tag="Fold4d"):
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
                expected = f"{needed} or more with the padding, as the kernel covers"
                yield "output_size", f"expected {expected}, got {size + 2 * pad}"


class PixelShuffleConfig(ModuleConfig["windows.PixelShuffle"], tag="PixelShuffle"):
    """Groups of channels as the pixels of an image upscale_factor times as high and wide (Shi et al. 2016)."""

    upscale_factor: Size


class PixelUnshuffleConfig(ModuleConfig["windows.PixelUnshuffle"], tag="PixelUnshuffle"):
    """Squares of pixels as channels, of a height and width divided by downscale_factor: PixelShuffle undone."""

    downscale_factor: Size
