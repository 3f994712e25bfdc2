"""The largest element of each window."""

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
from .configs import MaxPool1dConfig, MaxPool2dConfig, MaxPool3dConfig


class _MaxPool(KeepsType, Layer):
    """What max pools share. Sizes are ints in one dimension, tuples in two."""

    _axes: ClassVar[tuple[str, ...]]
    padding: Padding

    def __init__(self, config: Any, stride: Any) -> None:
        super().__init__()
        dims = len(self._axes)
        self.stride = layer_size(stride, dims)
        self.kernel_size = layer_size(config.kernel_size, dims)
        self.padding = layer_padding(config.padding, 2 * dims)
        self.dilation = layer_size(config.dilation, dims)
        self.ceil_mode = config.ceil_mode

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels, *sizes] -> [batch, channels, *sizes_out]`; padding counts as -inf.

        sizes_out = (sizes + padding - dilation * (kernel_size - 1) - 1) / stride + 1, rounded down, or with ceil_mode
        up; then a window that would start behind the input is left out.

        Raises:
            ShapeError: x has another rank, or is smaller than the window after padding.
        """
        expect_shape(self, x, "batch", "channels", *self._axes)
        dims = len(self._axes)
        kernel, stride, dilation = each(self.kernel_size, dims), each(self.stride, dims), each(self.dilation, dims)
        shape = x.shape
        begin, end = both_ends(self.padding, shape, kernel, stride)
        expect_window(self, shape, kernel, dilation, begin, end)
        return TorchModuleOps.max_pool(x, kernel, stride, begin, end, dilation, self.ceil_mode)

    def custom_content(self, content: Content) -> Content:
        content.add("kernel_size", shown_size(self.kernel_size)).add("stride", shown_size(self.stride))
        content.add("padding", padding_text(self.padding)).add("dilation", shown_size(self.dilation))
        return content.add("ceil_mode", self.ceil_mode)


class MaxPool1d(_MaxPool):
    """The largest element of each window, `[batch, channels, length] -> [batch, channels, length_out]`.

    Torch: `nn.MaxPool1d`.
    Differs: padding is `Valid`, `Same` or sizes, which may differ at the two ends; no indices.
    """

    _axes = ("length",)

    def __init__(self, config: MaxPool1dConfig, device: torch.device | str | None = None) -> None:
        super().__init__(config, config.stride)


class MaxPool2d(_MaxPool):
    """The largest element of each window, `[batch, channels, height, width] -> [batch, channels, *sizes_out]`.

    An input in torch's `channels_last` format gives an output in it.

    Torch: `nn.MaxPool2d`.
    Differs: the field is `strides`; padding is `Valid`, `Same` or sizes, which may differ at the two ends; no indices.
    """

    _axes = ("height", "width")

    def __init__(self, config: MaxPool2dConfig, device: torch.device | str | None = None) -> None:
        super().__init__(config, config.strides)


class MaxPool3d(_MaxPool):
    """The largest element of each window, `[batch, channels, depth, height, width] -> [batch, channels, *sizes_out]`.

    Torch: `nn.MaxPool3d`.
    Differs: the field is `strides`; padding is `Valid`, `Same` or sizes; no indices.
    """

    _axes = ("depth", "height", "width")

    def __init__(self, config: MaxPool3dConfig, device: torch.device | str | None = None) -> None:
        super().__init__(config, config.strides)
        if isinstance(config.padding, tuple):
            self.padding = config.padding * 2
