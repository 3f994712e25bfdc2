"""U-Net."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..module import Module
from ..nn.blocks.configs import ConvNorm2dConfig
from ..nn.conv.configs import Conv2dConfig, ConvTranspose2dConfig
from ..nn.layer import expect_shape, shape_error
from ..nn.pool.configs import MaxPool2dConfig
from ..tensor.torch_bridge.torch_function import lift
from .vision_configs import UNetConfig


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
