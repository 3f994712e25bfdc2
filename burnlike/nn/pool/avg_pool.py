"""The average of each window."""

from typing import Any, ClassVar

import torch
from torch import Tensor

from ...backend import TorchModuleOps
from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..layer import Layer, expect_shape
from ..padding import (
    Padding,
    both_ends,
    each,
    expect_window,
    layer_padding,
    layer_size,
    padding_text,
    shown_size,
)
from .configs import AvgPool1dConfig, AvgPool2dConfig


class _AvgPool(KeepsType, Layer):
    """What average pools share. Sizes are ints in one dimension, tuples in two."""

    _axes: ClassVar[tuple[str, ...]]
    padding: Padding

    def __init__(self, config: Any, stride: Any) -> None:
        super().__init__()
        dims = len(self._axes)
        self.stride = layer_size(stride, dims)
        self.kernel_size = layer_size(config.kernel_size, dims)
        self.padding = layer_padding(config.padding, 2 * dims)
        self.count_include_pad = config.count_include_pad
        self.ceil_mode = config.ceil_mode

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels, *sizes] -> [batch, channels, *sizes_out]`.

        sizes_out = (sizes + padding - kernel_size) / stride + 1, rounded down, or with ceil_mode up; then a window that
        would start behind the input is left out. What lies behind the padding never counts in an average.

        Raises:
            ShapeError: x has another rank, or is smaller than the window after padding.
        """
        expect_shape(self, x, "batch", "channels", *self._axes)
        dims = len(self._axes)
        kernel, stride = each(self.kernel_size, dims), each(self.stride, dims)
        shape = x.shape
        begin, end = both_ends(self.padding, shape, kernel, stride)
        expect_window(self, shape, kernel, (1,) * dims, begin, end)
        return TorchModuleOps.avg_pool(x, kernel, stride, begin, end, self.count_include_pad, self.ceil_mode)

    def custom_content(self, content: Content) -> Content:
        content.add("kernel_size", shown_size(self.kernel_size)).add("stride", shown_size(self.stride))
        content.add("padding", padding_text(self.padding)).add("count_include_pad", self.count_include_pad)
        return content.add("ceil_mode", self.ceil_mode)


class AvgPool1d(_AvgPool):
    """The average of each window, `[batch, channels, length] -> [batch, channels, length_out]`.

    Torch: `nn.AvgPool1d`.
    Differs: padding is `Valid`, `Same` or sizes, which may differ at the two ends.
    """

    _axes = ("length",)

    def __init__(self, config: AvgPool1dConfig, device: torch.device | str | None = None) -> None:
        super().__init__(config, config.stride)


class AvgPool2d(_AvgPool):
    """The average of each window, `[batch, channels, height, width] -> [batch, channels, *sizes_out]`.

    An input in torch's `channels_last` format gives an output in it.

    Torch: `nn.AvgPool2d`.
    Differs: the field is `strides`; padding is `Valid`, `Same` or sizes, which may differ at the two ends; no
    `divisor_override`.
    """

    _axes = ("height", "width")

    def __init__(self, config: AvgPool2dConfig, device: torch.device | str | None = None) -> None:
        super().__init__(config, config.strides)
