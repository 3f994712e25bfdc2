"""Convolutions, their normalization and activation."""

import torch
from torch import Tensor

from ...module import Module
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..conv.configs import Conv2dConfig
from ..torch_counterpart import AnyLibrary
from .configs import ConvNorm2dConfig, DepthwiseSeparableConv2dConfig


class ConvNorm2d(KeepsType, AnyLibrary, Module):
    """activation(norm(conv(x))), the convolution without a bias.

    Torch: `nn.Conv2d`, `nn.BatchNorm2d` and `nn.ReLU` in an `nn.Sequential`.
    Differs: see each of them.
    """

    def __init__(self, config: ConvNorm2dConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.conv = Conv2dConfig(
            channels=config.channels,
            kernel_size=config.kernel_size,
            stride=config.stride,
            groups=config.groups,
            padding=config.padding,
            bias=False,
            initializer=config.initializer,
        ).init(device)
        self.norm = config.norm.with_num_features(config.channels[1]).init(device)
        self.activation = config.activation.init(device)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels_in, height, width] -> [batch, channels_out, height_out, width_out]`, as of `Conv2d`."""
        return self.activation(self.norm(self.conv(x)))


class DepthwiseSeparableConv2d(KeepsType, AnyLibrary, Module):
    """Each channel convolved by itself, then all mixed at each pixel (Howard et al. 2017, section 3.1).

    Norm and activation follow both convolutions (figure 3 there).

    Torch: -.

    Attributes:
        depthwise: ConvNorm2d with a group for each channel; `pointwise` of 1 x 1.
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
        """`[batch, channels_in, height, width] -> [batch, channels_out, height_out, width_out]`, as of `Conv2d`."""
        return self.pointwise(self.depthwise(x))
