"""Convolutions: torch's with Burn's padding, transposed ones, and one that reads at moved places."""

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...backend import TorchModuleOps
from ...errors import ShapeError
from ...module import Content
from ...ops.half_products import convolution
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
    span,
    window_counts,
)
from .configs import DeformConv2dConfig


class Convolution(KeepsType, Layer):
    """The base of convolutions. Sizes are ints in one dimension, tuples in more; bias is `[channels_out]` or None."""

    _axes: ClassVar[tuple[str, ...]]
    weight: nn.Parameter
    bias: nn.Parameter | None
    padding: Padding

    def _set_weights(
        self, config: Any, channels: tuple[int, int], groups: int, device: Any, *, transposed: bool = False
    ) -> None:
        """Make the weight `[rows, columns / groups, *kernel_size]`, the bias and the attributes of the window.

        A transposed convolution's weight is read as that of the convolution it is the gradient of, as in Burn and
        torch.
        """
        dims = len(self._axes)
        rows, columns = channels if transposed else channels[::-1]
        shape = [rows, columns // groups, *each(config.kernel_size, dims)]
        taps = math.prod(shape[2:])
        fans = {"fan_in": shape[1] * taps, "fan_out": rows // groups * taps, "device": device}
        self.weight = config.initializer.init(shape, **fans)
        self.bias = config.initializer.init([channels[1]], **fans) if config.bias else None
        self.stride = layer_size(config.stride, dims)
        self.kernel_size = layer_size(config.kernel_size, dims)
        self.dilation = layer_size(config.dilation, dims)

    def _add_window(self, content: Content) -> Content:
        for name in ("stride", "kernel_size", "dilation"):
            content.add(name, shown_size(getattr(self, name)))
        return content


class _Conv(Convolution):
    """Convolutions, of a weight `[channels_out, channels_in / groups, *kernel_size]`."""

    in_channels = property(lambda layer: layer.weight.shape[1] * layer.groups)
    out_channels = torch_name("weight", 0)

    def __init__(self, config: Any, device: torch.device | str | None = None) -> None:
        super().__init__()
        dims = len(self._axes)
        channels = (config.channels_in, config.channels_out) if dims == 1 else config.channels
        self._set_weights(config, channels, config.groups, device)
        self.groups = config.groups
        self.padding = layer_padding(config.padding, 2 * dims if dims < 3 else dims)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels_in, *sizes] -> [batch, channels_out, *sizes_out]`.

        sizes_out = (sizes + padding - dilation * (kernel_size - 1) - 1) // stride + 1. Raises ShapeError if x is
        smaller than the kernel after padding.
        """
        weight, dims = self.weight, len(self._axes)
        expect_shape(self, x, "batch", weight.shape[1] * self.groups, *self._axes)
        kernel, stride, dilation = each(self.kernel_size, dims), each(self.stride, dims), each(self.dilation, dims)
        shape = x.shape
        begin, end = both_ends(self.padding, shape, kernel, stride)
        expect_window(self, shape, kernel, dilation, begin, end)
        if begin != end:
            if dims == 3:
                equal_ends("Conv3d", self.padding, shape, kernel, stride)
            x = functional.pad(x, [it for pair in zip(begin[::-1], end[::-1], strict=True) for it in pair])
            begin = (0,) * dims
        return convolution(x, weight, self.bias, stride, begin, dilation, self.groups)

    def custom_content(self, content: Content) -> Content:
        channels_out, channels_in, *_ = content.shape("weight")
        content.add("ch_in", channels_in * self.groups).add("ch_out", channels_out)
        return self._add_window(content).add("groups", self.groups).add("padding", padding_text(self.padding))


class Conv1d(_Conv):
    """Convolution over one dimension, `[batch, channels_in, length] -> [batch, channels_out, length_out]`.
    Torch: `nn.Conv1d`.
    Differs: padding is `Valid`, `Same` or sizes, which may differ at the two ends; zeros only, no `padding_mode`.
    """

    _axes = ("length",)


class Conv2d(_Conv):
    """Convolution, `[batch, channels_in, height, width] -> [batch, channels_out, *sizes_out]`; keeps `channels_last`.
    Torch: `nn.Conv2d`.
    Differs: padding is `Valid`, `Same` or sizes, which may differ at the two ends; zeros only, no `padding_mode`.
    """

    _axes = ("height", "width")


class Conv3d(_Conv):
    """Convolution, `[batch, channels_in, depth, height, width] -> [batch, channels_out, *sizes_out]`.
    Torch: `nn.Conv3d`. Differs: padding is `Valid`, `Same` (odd kernels) or sizes; zeros only, no `padding_mode`.
    """

    _axes = ("depth", "height", "width")


class _ConvTranspose(Convolution):
    """Transposed convolutions, of a weight `[channels_in, channels_out / groups, *kernel_size]`."""

    padding: Any
    in_channels = torch_name("weight", 0)
    out_channels = property(lambda layer: layer.channels[1])

    def __init__(self, config: Any, device: torch.device | str | None = None) -> None:
        super().__init__()
        dims = len(self._axes)
        self._set_weights(config, config.channels, config.groups, device, transposed=True)
        self.groups = config.groups
        self.padding = layer_size(config.padding, dims)
        self.padding_out = layer_size(config.padding_out, dims)
        self.channels = config.channels

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels_in, *sizes] -> [batch, channels_out, *sizes_out]`.

        sizes_out = (sizes - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + 1 + padding_out. Raises
        ShapeError if nothing is left of the output.
        """
        weight, dims = self.weight, len(self._axes)
        expect_shape(self, x, "batch", weight.shape[0], *self._axes)
        kernel, stride, dilation = each(self.kernel_size, dims), each(self.stride, dims), each(self.dilation, dims)
        padding, padding_out = each(self.padding, dims), each(self.padding_out, dims)
        sizes = zip(x.shape[2:], stride, span(kernel, dilation), padding, padding_out, strict=True)
        for size, step, covered, cut, out in sizes:
            if size < 1 or (size - 1) * step + covered - 2 * cut + out < 1:
                raise ShapeError(
                    f"{type(self).__name__}: expected sizes of which something is left when padding "
                    f"{shown_size(self.padding)} is cut off both ends of the result, got {list(x.shape)}"
                )
        return TorchModuleOps.conv_transpose(x, weight, self.bias, stride, padding, padding_out, self.groups, dilation)

    def custom_content(self, content: Content) -> Content:
        self._add_window(content.add("channels", list(self.channels))).add("groups", self.groups)
        return content.add("padding", shown_size(self.padding)).add("padding_out", shown_size(self.padding_out))


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution, `[batch, channels_in, length] -> [batch, channels_out, length_out]`.
    Torch: `nn.ConvTranspose1d`. Differs: `padding_out` is torch's `output_padding`, of any size.
    """

    _axes = ("length",)


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution, `[batch, channels_in, height, width] -> [batch, channels_out, *sizes_out]`.


    Torch: `nn.ConvTranspose2d`. Differs: `padding_out` is torch's `output_padding`, of any size.
    """

    _axes = ("height", "width")


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution, `[batch, channels_in, depth, height, width] -> [batch, channels_out, *sizes_out]`.
    Torch: `nn.ConvTranspose3d`. Differs: `padding_out` is torch's `output_padding`, of any size.
    """

    _axes = ("depth", "height", "width")


class DeformConv2d(Convolution):
    """y(p) = sum over k of weight(k) * x(p + k + offset(p, k)) * mask(p, k) (Zhu et al. 2018, eq. 1).

    x between its elements is bilinear, and 0 outside.

    Torch: none (torchvision's `DeformConv2d`).
    """

    _axes = ("height", "width")

    def __init__(self, config: DeformConv2dConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self._set_weights(config, config.channels, config.weight_groups, device)
        self.weight_groups = config.weight_groups
        self.offset_groups = config.offset_groups
        self.padding = layer_padding(config.padding, 4)

    @lift
    def forward(self, x: Tensor, offset: Tensor, mask: Tensor | None = None) -> Tensor:
        """`[batch, channels_in, height, width] -> [batch, channels_out, height_out, width_out]`.

        Args:
            offset: how far the place of each tap is moved, down and then right:
                `[batch, offset_groups * taps * 2, height_out, width_out]`.
            mask: what each tap is multiplied by: `[batch, offset_groups * taps, height_out, width_out]`.

        Raises ShapeError if x is smaller than the kernel after padding, or padding is not the same at both ends.
        """
        expect_shape(self, x, "batch", self.weight.shape[1] * self.weight_groups, "height", "width")
        kernel, stride, dilation = each(self.kernel_size, 2), each(self.stride, 2), each(self.dilation, 2)
        padding = equal_ends("DeformConv2d", self.padding, x.shape, kernel, stride)
        expect_window(self, x.shape, kernel, dilation, padding, padding)
        out = window_counts(x.shape[2:], span(kernel, dilation), stride, padding)
        taps = self.offset_groups * math.prod(kernel)
        expect_shape(self, offset, x.shape[0], 2 * taps, *out, name="offset")
        if mask is not None:
            expect_shape(self, mask, x.shape[0], taps, *out, name="mask")
        return TorchModuleOps.deform_conv2d(
            x, offset, self.weight, mask, self.bias, stride, padding, dilation, self.offset_groups
        )

    def custom_content(self, content: Content) -> Content:
        self._add_window(content).add("weight_groups", self.weight_groups).add("offset_groups", self.offset_groups)
        return content.add("padding", padding_text(self.padding))
