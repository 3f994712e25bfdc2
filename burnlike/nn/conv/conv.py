"""Convolutions over one, two and three dimensions (torch's, with Burn's padding)."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..layer import Layer, expect_shape, torch_name
from ..padding import (
    Padding,
    both_ends,
    each,
    equal_ends,
    expect_window,
    layer_padding,
    layer_size,
    padding_text,
    shown_size,
)

_CONV: dict[int, Any] = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}


class _Conv(KeepsType, Layer):
    """What the convolutions share. Sizes are ints in one dimension, tuples in more."""

    _axes: ClassVar[tuple[str, ...]]
    weight: nn.Parameter
    bias: nn.Parameter | None
    padding: Padding

    in_channels = property(lambda layer: layer.weight.shape[1] * layer.groups)
    out_channels = torch_name("weight", 0)

    def __init__(self, config: Any, device: torch.device | str | None = None) -> None:
        super().__init__()
        dims = len(self._axes)
        channels_in, channels_out = (config.channels_in, config.channels_out) if dims == 1 else config.channels
        groups, kernel = config.groups, each(config.kernel_size, dims)
        taps = math.prod(kernel)
        fans = {"fan_in": channels_in // groups * taps, "fan_out": channels_out // groups * taps, "device": device}
        self.weight = config.initializer.init([channels_out, channels_in // groups, *kernel], **fans)
        self.bias = config.initializer.init([channels_out], **fans) if config.bias else None
        self.stride = layer_size(config.stride, dims)
        self.kernel_size = layer_size(config.kernel_size, dims)
        self.dilation = layer_size(config.dilation, dims)
        self.groups = config.groups
        self.padding = layer_padding(config.padding, 2 * dims if dims < 3 else dims)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """Convolve `[batch, channels_in, *sizes]` into `[batch, channels_out, *sizes_out]`.

        sizes_out = (sizes + padding - dilation * (kernel_size - 1) - 1) // stride + 1.

        Raises:
            ShapeError: x has another rank or other channels, or is smaller than the kernel after padding.
        """
        weight, dims = self.weight, len(self._axes)
        expect_shape(self, x, "batch", weight.shape[1] * self.groups, *self._axes)
        kernel, stride, dilation = each(self.kernel_size, dims), each(self.stride, dims), each(self.dilation, dims)
        shape = x.shape
        begin, end = self._ends(shape, kernel, stride)
        expect_window(self, shape, kernel, dilation, begin, end)
        if begin != end:
            x = functional.pad(x, [it for pair in zip(begin[::-1], end[::-1], strict=True) for it in pair])
            begin = (0,) * dims
        return _CONV[dims](x, weight, self.bias, stride, begin, dilation, self.groups)

    def _ends(
        self, shape: Sequence[int], kernel: tuple[int, ...], stride: tuple[int, ...]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return both_ends(self.padding, shape, kernel, stride)

    def custom_content(self, content: Content) -> Content:
        channels_out, channels_in, *_ = content.shape("weight")
        content.add("ch_in", channels_in * self.groups).add("ch_out", channels_out)
        for name in ("stride", "kernel_size", "dilation"):
            content.add(name, shown_size(getattr(self, name)))
        return content.add("groups", self.groups).add("padding", padding_text(self.padding))


class Conv1d(_Conv):
    """Convolution over one dimension, `[batch, channels_in, length] -> [batch, channels_out, length_out]`.

    Torch: `nn.Conv1d`.
    Differs: padding is `Valid`, `Same` or sizes, which may differ at the two ends; zeros only, no `padding_mode`.

    Attributes:
        weight: `[channels_out, channels_in / groups, kernel_size]`.
        bias: `[channels_out]` or None.
    """

    _axes = ("length",)


class Conv2d(_Conv):
    """Convolution, `[batch, channels_in, height, width] -> [batch, channels_out, height_out, width_out]`.

    An input in torch's `channels_last` format gives an output in it.

    Torch: `nn.Conv2d`.
    Differs: padding is `Valid`, `Same` or sizes, which may differ at the two ends; zeros only, no `padding_mode`.

    Attributes:
        weight: `[channels_out, channels_in / groups, height, width]`.
        bias: `[channels_out]` or None.
    """

    _axes = ("height", "width")


class Conv3d(_Conv):
    """Convolution, `[batch, channels_in, depth, height, width] -> [batch, channels_out, *sizes_out]`.

    Torch: `nn.Conv3d`.
    Differs: padding is `Valid`, `Same` (odd kernels) or sizes; zeros only, no `padding_mode`.

    Attributes:
        weight: `[channels_out, channels_in / groups, depth, height, width]`.
        bias: `[channels_out]` or None.
    """

    _axes = ("depth", "height", "width")

    def _ends(
        self, shape: Sequence[int], kernel: tuple[int, ...], stride: tuple[int, ...]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        begin = equal_ends("Conv3d", self.padding, shape, kernel, stride)
        return begin, begin
