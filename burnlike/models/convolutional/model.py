"""Convolutional networks: ResNet, ConvNeXt and U-Net."""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...module import Module
from ...nn.blocks.configs import ConvNorm2dConfig, LayerScaleConfig
from ...nn.configs import DropPathConfig, LinearConfig
from ...nn.conv.configs import Conv2dConfig, ConvTranspose2dConfig
from ...nn.initializers.configs import Normal
from ...nn.layer import expect_shape, shape_error
from ...nn.norm.configs import LayerNormConfig
from ...nn.pool.configs import MaxPool2dConfig
from ...tensor.torch_bridge.torch_function import lift
from .configs import ConvNextConfig, ResNetConfig, UNetConfig

INITIALIZER = Normal(std=0.02)
"""Of all weights of ConvNeXt (Liu et al. 2022, table 5)."""


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
        stages = []
        for stage in self.stages:
            for block in stage:  # pyright: ignore[reportGeneralTypeIssues]
                x = block(x)
            stages.append(x)
        return stages


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
        stages = []
        for downsample, stage in zip(self.downsamples, self.stages, strict=True):
            x = downsample(x)
            for block in stage:  # pyright: ignore[reportGeneralTypeIssues]
                x = block(x)
            stages.append(x)
        return stages


class UNetStage(Module):
    """Two convolutions of 3 x 3 that keep height and width, each with norm and activation."""

    def __init__(self, config: UNetConfig, channels: tuple[int, int], device: torch.device | str | None) -> None:
        super().__init__()
        conv = ConvNorm2dConfig(channels=channels, padding=1, norm=config.norm, activation=config.activation)
        self.first = conv.init(device)
        self.second = conv.replace(channels=(channels[1], channels[1])).init(device)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels_in, height, width] -> [batch, channels_out, height, width]`."""
        return self.second(self.first(x))


class UNet(Module):
    """An encoder and a decoder with connections between equal sizes, for segmentation (Ronneberger et al. 2015).

    Other than in the paper, convolutions keep height and width, so that the result has the size of the image.

    Attributes:
        encoder: stages, each but the first after a pool that halves height and width.
        ups: what doubles height and width again, from the middle on.
        decoder: stages of what `ups` made and the encoder's result of the same size.
    """

    def __init__(self, config: UNetConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        widths = config.widths
        self.encoder = nn.ModuleList(
            UNetStage(config, channels, device) for channels in pairwise((config.channels, *widths))
        )
        self.pool = MaxPool2dConfig(kernel_size=2).init(device)
        self.ups = nn.ModuleList(
            ConvTranspose2dConfig(channels=channels, kernel_size=2, stride=2).init(device)
            for channels in pairwise(widths[::-1])
        )
        self.decoder = nn.ModuleList(UNetStage(config, (2 * width, width), device) for width in widths[-2::-1])
        self.head = Conv2dConfig(channels=(widths[0], config.num_classes), kernel_size=1).init(device)
        self.channels = config.channels
        self.smallest = 2 ** (len(widths) - 1)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels, height, width] -> [batch, num_classes, height, width]`, the logits of each pixel.

        Sizes that are odd at some stage are rounded down by its pool; zeros make up for that on the way back.

        Raises:
            ShapeError: x has another rank or other channels, or is too small to be halved at each stage.
        """
        expect_shape(self, x, "batch", self.channels, "height", "width")
        if min(x.shape[2:]) < self.smallest:
            raise shape_error(self, f"at least {self.smallest} for height and width", list(x.shape[2:]))
        first, *others = self.encoder
        x = first(x)
        skips = [x]
        for stage in others:
            x = stage(self.pool(x))
            skips.append(x)
        for up, stage, skip in zip(self.ups, self.decoder, skips[-2::-1], strict=True):
            x = up(x)
            if x.shape[2:] != skip.shape[2:]:
                x = functional.pad(x, (0, skip.shape[3] - x.shape[3], 0, skip.shape[2] - x.shape[2]))
            x = stage(torch.cat((skip, x), 1))
        return self.head(x)
