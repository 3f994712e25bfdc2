"""Residual networks."""

import torch
from torch import Tensor, nn

from ..module import Module
from ..nn.blocks.configs import ConvNorm2dConfig
from ..nn.layer import expect_shape
from ..nn.linear.configs import LinearConfig
from ..nn.pool.configs import MaxPool2dConfig
from ..tensor.torch_bridge.torch_function import lift
from .vision_configs import ResNetConfig


class ResNet(Module):
    """A residual network that classifies images (He et al. 2016, section 3).

    Attributes:
        pool: after the stem; None for small images.
        head: from the average over height and width of the last stage to the classes, or None.
    """

    def __init__(self, config: ResNetConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        small = config.stem == "Small"
        self.stem = ConvNorm2dConfig(
            channels=(config.channels, config.stem_channels),
            kernel_size=3 if small else 7,
            stride=1 if small else 2,
            padding=1 if small else 3,
            norm=config.norm,
            activation=config.activation,
        ).init(device)
        self.pool = None if small else MaxPool2dConfig(kernel_size=3, strides=2, padding=1).init(device)
        self.stages = nn.ModuleList(nn.ModuleList(block.init(device) for block in stage) for stage in config.blocks)
        self.head = None
        if config.num_classes is not None:
            self.head = LinearConfig(d_input=config.widths[-1], d_output=config.num_classes).init(device)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels, height, width] -> [batch, num_classes]`, the logits; without a head `[batch, width]`."""
        pooled = self.features(x)[-1].mean((2, 3))
        return pooled if self.head is None else self.head(pooled)

    @lift
    def features(self, x: Tensor) -> list[Tensor]:
        """The results of all stages, `[batch, width, height / scale, width / scale]` each.

        The scale is 4 at the first stage, 1 for small images, and doubles at each after it; sizes are rounded up.

        Raises:
            ShapeError: x has another rank or other channels.
        """
        expect_shape(self, x, "batch", self.stem.conv.weight.shape[1], "height", "width")
        x = self.stem(x)
        if self.pool is not None:
            x = self.pool(x)
        found = []
        for stage in self.stages:
            for block in stage:  # pyright: ignore[reportGeneralTypeIssues]
                x = block(x)
            found.append(x)
        return found
