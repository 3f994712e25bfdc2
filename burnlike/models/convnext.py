"""ConvNeXt."""

from typing import Any

import torch
from torch import Tensor, nn

from ..module import Module
from ..nn.blocks.configs import LayerScaleConfig
from ..nn.conv.configs import Conv2dConfig
from ..nn.dropout.configs import DropPathConfig
from ..nn.initializers.configs import Normal
from ..nn.layer import expect_shape, shape_error
from ..nn.linear.configs import LinearConfig
from ..nn.norm.configs import LayerNormConfig
from ..tensor.torch_bridge.torch_function import lift
from .vision_configs import ConvNextConfig

INITIALIZER = Normal(std=0.02)
"""Of all weights (Liu et al. 2022, table 5)."""


class ConvNextDownsample(Module):
    """conv(norm(x)), which halves height and width; the first of a model, from the image, is norm(conv(x))."""

    def __init__(
        self, config: ConvNextConfig, channels: tuple[int, int], kernel_size: int, device: Any, *, first: bool
    ) -> None:
        super().__init__()
        self.conv = Conv2dConfig(
            channels=channels, kernel_size=kernel_size, stride=kernel_size, initializer=INITIALIZER
        ).init(device)
        self.norm = LayerNormConfig(d_model=channels[1 if first else 0], epsilon=config.norm_epsilon).init(device)
        self.first = first

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels_in, height, width] -> [batch, channels_out, height // kernel, width // kernel]`."""
        x = self.conv(x) if self.first else x
        x = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return x if self.first else self.conv(x)


class ConvNextBlock(Module):
    """x + scale * linear_outer(activation(linear_inner(norm(conv(x))))) (Liu et al. 2022, figure 4)."""

    def __init__(self, config: ConvNextConfig, channels: int, drop_path: float, device: Any) -> None:
        super().__init__()
        self.conv = Conv2dConfig(
            channels=(channels, channels), kernel_size=7, groups=channels, padding=3, initializer=INITIALIZER
        ).init(device)
        self.norm = LayerNormConfig(d_model=channels, epsilon=config.norm_epsilon).init(device)
        inner = LinearConfig(d_input=channels, d_output=4 * channels, initializer=INITIALIZER)
        self.linear_inner = inner.init(device)
        self.activation = config.activation.init(device)
        self.linear_outer = inner.replace(d_input=4 * channels, d_output=channels).init(device)
        scale = LayerScaleConfig(d_model=channels, value=config.layer_scale)
        self.scale = scale.init(device) if config.layer_scale else None
        self.drop_path = DropPathConfig(prob=drop_path).init()

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels, height, width] -> [batch, channels, height, width]`."""
        y = self.norm(self.conv(x).permute(0, 2, 3, 1))
        y = self.linear_outer(self.activation(self.linear_inner(y)))
        if self.scale is not None:
            y = self.scale(y)
        return x + self.drop_path(y.permute(0, 3, 1, 2))


class ConvNext(Module):
    """A convolutional network with the design of transformers, which classifies images (Liu et al. 2022).

    Attributes:
        downsamples: one before each of the `stages`, which are lists of blocks.
        norm: of the average over height and width.
    """

    def __init__(self, config: ConvNextConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        sizes = (config.channels, *config.widths)
        self.downsamples = nn.ModuleList(
            ConvNextDownsample(
                config, (sizes[at], sizes[at + 1]), 2 if at else config.patch_size, device, first=at == 0
            )
            for at in range(len(config.widths))
        )
        total = sum(config.depths)
        rates = iter([config.drop_path * at / max(total - 1, 1) for at in range(total)])
        self.stages = nn.ModuleList(
            nn.ModuleList(ConvNextBlock(config, width, next(rates), device) for _ in range(depth))
            for depth, width in zip(config.depths, config.widths, strict=True)
        )
        self.norm = LayerNormConfig(d_model=config.widths[-1], epsilon=config.head_epsilon).init(device)
        self.head = None
        if config.num_classes is not None:
            head = LinearConfig(d_input=config.widths[-1], d_output=config.num_classes, initializer=INITIALIZER)
            self.head = head.init(device)
        self.channels = config.channels
        self.smallest = config.patch_size * 2 ** (len(config.widths) - 1)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels, height, width] -> [batch, num_classes]`, the logits; without a head `[batch, width]`."""
        pooled = self.norm(self.features(x)[-1].mean((2, 3)))
        return pooled if self.head is None else self.head(pooled)

    @lift
    def features(self, x: Tensor) -> list[Tensor]:
        """The results of all stages, `[batch, width, height // scale, width // scale]` each.

        The scale is the patch size at the first stage, and doubles at each after it.

        Raises:
            ShapeError: x has another rank or other channels, or is too small for the last stage.
        """
        expect_shape(self, x, "batch", self.channels, "height", "width")
        if min(x.shape[2:]) < self.smallest:
            raise shape_error(self, f"at least {self.smallest} for height and width", list(x.shape[2:]))
        found = []
        for downsample, stage in zip(self.downsamples, self.stages, strict=True):
            x = downsample(x)
            for block in stage:  # pyright: ignore[reportGeneralTypeIssues]
                x = block(x)
            found.append(x)
        return found
