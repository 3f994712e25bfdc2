"""Convolution that reads at moved places."""

import math

import torch
from torch import Tensor

from ...backend import TorchModuleOps
from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..layer import expect_shape
from ..padding import (
    each,
    equal_ends,
    expect_window,
    layer_padding,
    padding_text,
    span,
    window_counts,
)
from .configs import DeformConv2dConfig
from .conv import Convolution


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
