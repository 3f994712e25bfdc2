"""A U-Net (Ronneberger et al. 2015, figure 1) in torch.nn, with convolutions that keep the size."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from burnlike.models import UNetConfig

NAMES: Mapping[str, str] = {r"\.(first|second)\.conv": r".\1.0", r"\.(first|second)\.norm": r".\1.1"}
"""Patterns in the paths of ours, and what is here in place of it."""


def convolution(channels_in: int, channels_out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False), nn.BatchNorm2d(channels_out), nn.ReLU()
    )


class Stage(nn.Module):
    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.first = convolution(channels_in, channels_out)
        self.second = convolution(channels_out, channels_out)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))


class UNet(nn.Module):
    def __init__(self, config: UNetConfig) -> None:
        super().__init__()
        widths = config.widths
        self.encoder = nn.ModuleList(
            Stage(before, after) for before, after in zip((config.channels, *widths), widths, strict=False)
        )
        back = widths[::-1]
        self.ups = nn.ModuleList(nn.ConvTranspose2d(back[at], back[at + 1], 2, 2) for at in range(len(back) - 1))
        self.decoder = nn.ModuleList(Stage(2 * width, width) for width in back[1:])
        self.head = nn.Conv2d(widths[0], config.num_classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        found = [self.encoder[0](x)]
        for stage in self.encoder[1:]:
            found.append(stage(functional.max_pool2d(found[-1], 2)))
        y = found.pop()
        for up, stage in zip(self.ups, self.decoder, strict=True):
            same = found.pop()
            y = up(y)
            if y.shape != same.shape:
                whole = torch.zeros_like(same)
                whole[:, :, : y.shape[2], : y.shape[3]] = y
                y = whole
            y = stage(torch.cat((same, y), 1))
        return self.head(y)
