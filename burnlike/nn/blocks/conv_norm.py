"""A convolution and its normalization."""

import torch
from torch import Tensor

from ...module import Module
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..conv.configs import Conv2dConfig
from ..torch_counterpart import AnyLibrary
from .configs import ConvNorm2dConfig


class ConvNorm2d(KeepsType, AnyLibrary, Module):
    """activation(norm(conv(x))), the convolution without a bias.

    Torch: `nn.Conv2d`, `nn.BatchNorm2d` and `nn.ReLU` in an `nn.Sequential`.
    Differs: see each of them.

    Attributes:
        conv: Conv2d.
        norm: of its channels.
        activation: of the norm's result.
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
        """`[batch, channels_in, height, width] -> [batch, channels_out, height_out, width_out]`.

        Raises:
            ShapeError: x has another rank or other channels, or is smaller than the kernel after padding.
        """
        return self.activation(self.norm(self.conv(x)))
