"""Windows of an image as columns of a matrix, and back."""

import torch
from torch import Tensor
from torch.nn import functional

from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import ChangesRank
from ..layer import Layer, expect_shape, shape_error
from ..padding import each, expect_window, shown_size, span, window_counts
from .window_configs import Fold4dConfig, Unfold4dConfig


class Unfold4d(ChangesRank, Layer):
    """Windows as columns (im2col), `[batch, channels, height, width] -> [batch, channels * taps, windows]`.

    Torch: `nn.Unfold`.
    """

    def __init__(self, config: Unfold4dConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.kernel_size = each(config.kernel_size, 2)
        self.stride = each(config.stride, 2)
        self.dilation = each(config.dilation, 2)
        self.padding = each(config.padding, 2)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels, height, width] -> [batch, channels * taps, windows]`.

        Raises:
            ShapeError: x has another rank, or is smaller than the kernel after padding.
        """
        expect_shape(self, x, "batch", "channels", "height", "width")
        padding = each(self.padding, 2)
        expect_window(self, x.shape, each(self.kernel_size, 2), each(self.dilation, 2), padding, padding)
        return functional.unfold(x, self.kernel_size, self.dilation, padding, self.stride)

    def custom_content(self, content: Content) -> Content:
        for name in ("kernel_size", "stride", "dilation", "padding"):
            content.add(name, shown_size(getattr(self, name)))
        return content


class Fold4d(ChangesRank, Layer):
    """The sum of windows (col2im), `[batch, channels * taps, windows] -> [batch, channels, *output_size]`.

    Torch: `nn.Fold`.
    """

    def __init__(self, config: Fold4dConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.output_size = each(config.output_size, 2)
        self.kernel_size = each(config.kernel_size, 2)
        self.stride = each(config.stride, 2)
        self.dilation = each(config.dilation, 2)
        self.padding = each(config.padding, 2)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels * taps, windows] -> [batch, channels, *output_size]`.

        Raises:
            ShapeError: x has another rank, other columns than windows fit into `output_size`, or rows that are no
                multiple of the taps of a window.
        """
        kernel, stride, padding = each(self.kernel_size, 2), each(self.stride, 2), each(self.padding, 2)
        window = span(kernel, each(self.dilation, 2))
        rows, columns = window_counts(each(self.output_size, 2), window, stride, padding)
        taps = kernel[0] * kernel[1]
        expect_shape(self, x, "batch", f"channels * {taps}", rows * columns)
        if x.shape[1] % taps:
            raise shape_error(self, f"[batch, channels * {taps}, {rows * columns}]", list(x.shape))
        return functional.fold(x, self.output_size, kernel, self.dilation, padding, stride)

    def custom_content(self, content: Content) -> Content:
        for name in ("output_size", "kernel_size", "stride", "dilation", "padding"):
            content.add(name, shown_size(getattr(self, name)))
        return content
