"""Convolutions: torch's with Burn's padding, transposed ones, and one that reads at moved places."""

import math
from functools import partial
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
from ..tensor_source import TensorSource
from ..torch_counterpart import Counterpart, alike, expect_only, refuse
from . import configs
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


_TENSORS = {"weight": TensorSource("weight"), "bias": TensorSource("bias")}


def _from_torch(config: Any, layer: Any) -> Any:
    expect_only(layer, padding_mode="zeros")
    dims = len(layer.kernel_size)
    sizes = {name: getattr(layer, name) for name in ("kernel_size", "stride", "dilation")}
    if layer.transposed:
        sizes |= {"padding": layer.padding, "padding_out": layer.output_padding}
    fields: dict[str, Any] = {name: size[0] if dims == 1 else size for name, size in sizes.items()}
    if not layer.transposed:
        fields["padding"] = _burn_padding(layer)
    if config is configs.Conv1dConfig:
        fields |= {"channels_in": layer.in_channels, "channels_out": layer.out_channels}
    else:
        fields["channels"] = (layer.in_channels, layer.out_channels)
    return config(**fields, groups=layer.groups, bias=layer.bias is not None)


def _burn_padding(layer: nn.Conv1d | nn.Conv2d | nn.Conv3d) -> Any:
    """burnlike's padding of torch's, whose `same` is that of Burn but for the dilation."""
    dims = len(layer.kernel_size)
    begin = end = layer.padding if isinstance(layer.padding, tuple) else (0,) * dims
    if layer.padding == "same":
        if all(gap == 1 for gap in layer.dilation) and dims < 3:
            return "Same"
        begin, end = _same_ends(layer.kernel_size, layer.dilation)
        if begin != end and dims == 3:
            raise refuse(layer, "padding='same' of an even kernel has no counterpart in 3 dimensions")
    if not any(end):
        return "Valid"
    return begin if dims == 3 else begin + end


def _same_ends(kernel_size: tuple[int, ...], dilation: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The padding before and after each dimension that torch's `same` adds."""
    total = [covered - 1 for covered in span(kernel_size, dilation)]
    return tuple(it // 2 for it in total), tuple(it - it // 2 for it in total)


def _torch_padding(layer: Any) -> Any:
    dims, padding = layer.weight.ndim - 2, layer.padding
    kernel_size, stride, dilation = (each(it, dims) for it in (layer.kernel_size, layer.stride, layer.dilation))
    if padding == "Same" and any(it != 1 for it in stride + dilation):
        raise refuse(layer, "padding Same with a stride or a dilation has no counterpart")
    if isinstance(padding, str):
        return padding.lower()
    if dims == 3:
        return padding
    begin, end = padding[:dims], padding[dims:]
    if begin == end:
        return begin
    if all(step == 1 for step in stride) and (begin, end) == _same_ends(kernel_size, dilation):
        return "same"
    raise refuse(layer, f"padding {list(padding)} has no counterpart: the two ends differ")


def _to_torch(twin: Any, layer: Any, device: torch.device) -> nn.Module:
    return twin(
        layer.in_channels,
        layer.out_channels,
        layer.kernel_size,
        layer.stride,
        _torch_padding(layer),
        layer.dilation,
        layer.groups,
        layer.bias is not None,
        device=device,
    )


def _to_torch_transposed(twin: Any, layer: Any, device: torch.device) -> nn.Module:
    sizes = (each(it, layer.weight.ndim - 2) for it in (layer.padding_out, layer.stride, layer.dilation))
    if any(out >= max(step, gap) for out, step, gap in zip(*sizes, strict=True)):
        raise refuse(layer, f"padding_out {layer.padding_out} has no counterpart: it reaches stride and dilation")
    return twin(
        *layer.channels,
        layer.kernel_size,
        layer.stride,
        layer.padding,
        layer.padding_out,
        layer.groups,
        layer.bias is not None,
        layer.dilation,
        device=device,
    )


def _pair(config: Any, twin: Any, build: Any) -> Counterpart:
    return Counterpart(twin.__name__, twin, partial(_from_torch, config), partial(build, twin), _TENSORS)


COUNTERPARTS = [
    _pair(configs.Conv1dConfig, nn.Conv1d, _to_torch),
    _pair(configs.Conv2dConfig, nn.Conv2d, _to_torch),
    _pair(configs.Conv3dConfig, nn.Conv3d, _to_torch),
    _pair(configs.ConvTranspose1dConfig, nn.ConvTranspose1d, _to_torch_transposed),
    _pair(configs.ConvTranspose2dConfig, nn.ConvTranspose2d, _to_torch_transposed),
    _pair(configs.ConvTranspose3dConfig, nn.ConvTranspose3d, _to_torch_transposed),
    alike(configs.Unfold4dConfig, nn.Unfold),
    alike(configs.Fold4dConfig, nn.Fold),
    alike(configs.PixelShuffleConfig, nn.PixelShuffle),
    alike(configs.PixelUnshuffleConfig, nn.PixelUnshuffle),
]
