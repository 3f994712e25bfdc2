"""Transposed convolutions over one, two and three dimensions."""

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ...backend import TorchModuleOps
from ...errors import ShapeError
from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..layer import Layer, expect_shape, torch_name
from ..padding import each, layer_size, shown_size, span


class _ConvTranspose(KeepsType, Layer):
    """What the transposed convolutions share. Sizes are ints in one dimension, tuples in more."""

    _axes: ClassVar[tuple[str, ...]]
    weight: nn.Parameter
    bias: nn.Parameter | None
    in_channels = torch_name("weight", 0)
    out_channels = property(lambda layer: layer.channels[1])

    def __init__(self, config: Any, device: torch.device | str | None = None) -> None:
        super().__init__()
        dims = len(self._axes)
        (channels_in, channels_out), groups, kernel = config.channels, config.groups, each(config.kernel_size, dims)
        taps = math.prod(kernel)
        # As Burn and torch, which read the weight as that of the convolution it is the gradient of.
        fans = {"fan_in": channels_out // groups * taps, "fan_out": channels_in // groups * taps, "device": device}
        self.weight = config.initializer.init([channels_in, channels_out // groups, *kernel], **fans)
        self.bias = config.initializer.init([channels_out], **fans) if config.bias else None
        self.stride = layer_size(config.stride, dims)
        self.kernel_size = layer_size(config.kernel_size, dims)
        self.dilation = layer_size(config.dilation, dims)
        self.groups = groups
        self.padding = layer_size(config.padding, dims)
        self.padding_out = layer_size(config.padding_out, dims)
        self.channels = config.channels

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """Convolve `[batch, channels_in, *sizes]` into `[batch, channels_out, *sizes_out]`.

        sizes_out = (sizes - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + 1 + padding_out.

        Raises:
            ShapeError: x has another rank or other channels, or nothing is left of the output.
        """
        weight, dims = self.weight, len(self._axes)
        expect_shape(self, x, "batch", weight.shape[0], *self._axes)
        kernel, stride, dilation = each(self.kernel_size, dims), each(self.stride, dims), each(self.dilation, dims)
        padding, padding_out = each(self.padding, dims), each(self.padding_out, dims)
        self._expect_output(x, stride, span(kernel, dilation), padding, padding_out)
        return TorchModuleOps.conv_transpose(x, weight, self.bias, stride, padding, padding_out, self.groups, dilation)

    def _expect_output(
        self,
        x: Tensor,
        stride: tuple[int, ...],
        window: tuple[int, ...],
        padding: tuple[int, ...],
        padding_out: tuple[int, ...],
    ) -> None:
        sizes = zip(x.shape[2:], stride, window, padding, padding_out, strict=True)
        for size, step, covered, cut, out in sizes:
            if size < 1 or (size - 1) * step + covered - 2 * cut + out < 1:
                raise ShapeError(
                    f"{type(self).__name__}: expected sizes of which something is left when padding "
                    f"{shown_size(self.padding)} is cut off both ends of the result, got {list(x.shape)}"
                )

    def custom_content(self, content: Content) -> Content:
        content.add("channels", list(self.channels))
        for name in ("stride", "kernel_size", "dilation"):
            content.add(name, shown_size(getattr(self, name)))
        content.add("groups", self.groups)
        return content.add("padding", shown_size(self.padding)).add("padding_out", shown_size(self.padding_out))


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution, `[batch, channels_in, length] -> [batch, channels_out, length_out]`.

    Torch: `nn.ConvTranspose1d`.
    Differs: `padding_out` is torch's `output_padding`, of any size.

    Attributes:
        weight: `[channels_in, channels_out / groups, kernel_size]`.
        bias: `[channels_out]` or None.
    """

    _axes = ("length",)


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution, `[batch, channels_in, height, width] -> [batch, channels_out, *sizes_out]`.

    An input in torch's `channels_last` format gives an output in it.

    Torch: `nn.ConvTranspose2d`.
    Differs: `padding_out` is torch's `output_padding`, of any size.

    Attributes:
        weight: `[channels_in, channels_out / groups, height, width]`.
        bias: `[channels_out]` or None.
    """

    _axes = ("height", "width")


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution, `[batch, channels_in, depth, height, width] -> [batch, channels_out, *sizes_out]`.

    Torch: `nn.ConvTranspose3d`.
    Differs: `padding_out` is torch's `output_padding`, of any size.

    Attributes:
        weight: `[channels_in, channels_out / groups, depth, height, width]`.
        bias: `[channels_out]` or None.
    """

    _axes = ("depth", "height", "width")
