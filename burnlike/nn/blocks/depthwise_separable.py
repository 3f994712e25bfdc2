"""Depthwise separable convolution."""

import torch
from torch import Tensor

from ...module import Module
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..torch_counterpart import AnyLibrary
from .configs import ConvNorm2dConfig, DepthwiseSeparableConv2dConfig


class DepthwiseSeparableConv2d(KeepsType, AnyLibrary, Module):
    """Each channel convolved by itself, then all mixed at each pixel (Howard et al. 2017, section 3.1).

    Norm and activation follow both convolutions (figure 3 there).

    Torch: -.

    Attributes:
        depthwise: ConvNorm2d with a group for each channel.
        pointwise: ConvNorm2d of 1 x 1.
    """

    def __init__(self, config: DepthwiseSeparableConv2dConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        channels = config.channels[0]
        depthwise = ConvNorm2dConfig(
            channels=(channels, channels),
            kernel_size=config.kernel_size,
            stride=config.stride,
            groups=channels,
            padding=config.padding,
            norm=config.norm,
            activation=config.activation,
            initializer=config.initializer,
        )
        pointwise = depthwise.replace(channels=config.channels, kernel_size=1, stride=1, groups=1, padding="Valid")
        self.depthwise = depthwise.init(device)
        self.pointwise = pointwise.init(device)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels_in, height, width] -> [batch, channels_out, height_out, width_out]`.

        Raises:
            ShapeError: x has another rank or other channels, or is smaller than the kernel after padding.
        """
        return self.pointwise(self.depthwise(x))
