"""ConvNeXt (Liu et al. 2022) in torch.nn, as its authors wrote it."""

from collections.abc import Mapping
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from burnlike.models import ConvNextConfig

NAMES: Mapping[str, str] = {
    r"^downsamples\.0\.conv": "downsample_layers.0.0",
    r"^downsamples\.0\.norm": "downsample_layers.0.1",
    r"^downsamples\.(\d+)\.norm": r"downsample_layers.\1.0",
    r"^downsamples\.(\d+)\.conv": r"downsample_layers.\1.1",
    r"\.conv\.": ".dwconv.",
    r"\.linear_inner": ".pwconv1",
    r"\.linear_outer": ".pwconv2",
    r"\.scale\.gamma": ".gamma",
}
"""Patterns in the paths of ours, and what is here in place of it."""


class ChannelsNorm(nn.LayerNorm):
    """A norm of dimension 1, by the formula."""

    def forward(self, x: Tensor) -> Tensor:
        centered = x - x.mean(1, keepdim=True)
        x = centered / torch.sqrt(centered.pow(2).mean(1, keepdim=True) + self.eps)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class Block(nn.Module):
    def __init__(self, config: ConvNextConfig, width: int) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, config.norm_epsilon)
        self.pwconv1 = nn.Linear(width, 4 * width)
        self.pwconv2 = nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(torch.full((width,), config.layer_scale))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.dwconv(x).permute(0, 2, 3, 1))
        y = self.gamma * self.pwconv2(functional.gelu(self.pwconv1(y)))
        return x + y.permute(0, 3, 1, 2)


class ConvNext(nn.Module):
    def __init__(self, config: ConvNextConfig) -> None:
        super().__init__()
        widths, epsilon, patch = config.widths, config.norm_epsilon, config.patch_size
        self.downsample_layers = nn.ModuleList(
            [nn.Sequential(nn.Conv2d(config.channels, widths[0], patch, patch), ChannelsNorm(widths[0], epsilon))]
        )
        for before, after in pairwise(widths):
            self.downsample_layers.append(nn.Sequential(ChannelsNorm(before, epsilon), nn.Conv2d(before, after, 2, 2)))
        self.stages = nn.ModuleList(
            nn.Sequential(*(Block(config, width) for _ in range(depth)))
            for depth, width in zip(config.depths, widths, strict=True)
        )
        self.norm = nn.LayerNorm(widths[-1], config.head_epsilon)
        self.head = nn.Linear(widths[-1], config.num_classes)

    def forward(self, x: Tensor) -> Tensor:
        for downsample, stage in zip(self.downsample_layers, self.stages, strict=True):
            x = stage(downsample(x))
        return self.head(self.norm(x.mean([-2, -1])))
