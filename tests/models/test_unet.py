"""U-Nets: the same in torch's layers, sizes, and what is refused."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import burnlike as bl
from burnlike.errors import ConfigError, ShapeError
from burnlike.models import UNetConfig

from .beside_torch import expect_same, floats, randomized

CONFIG = UNetConfig(num_classes=2, widths=(4, 6, 8))

NAMES = {
    r"\.(first|second)\.conv": r".\1.0",
    r"\.(first|second)\.norm": r".\1.1",
}


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


class TorchUNet(nn.Module):
    """Ronneberger et al. 2015, figure 1, of two halvings."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.ModuleList([Stage(3, 4), Stage(4, 6), Stage(6, 8)])
        self.ups = nn.ModuleList([nn.ConvTranspose2d(8, 6, 2, 2), nn.ConvTranspose2d(6, 4, 2, 2)])
        self.decoder = nn.ModuleList([Stage(12, 6), Stage(8, 4)])
        self.head = nn.Conv2d(4, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        full = self.encoder[0](x)
        half = self.encoder[1](functional.max_pool2d(full, 2))
        quarter = self.encoder[2](functional.max_pool2d(half, 2))
        y = torch.zeros_like(half)
        up = self.ups[0](quarter)
        y[:, :, : up.shape[2], : up.shape[3]] = up
        y = self.decoder[0](torch.cat((half, y), 1))
        z = torch.zeros_like(full)
        up = self.ups[1](y)
        z[:, :, : up.shape[2], : up.shape[3]] = up
        return self.head(self.decoder[1](torch.cat((full, z), 1)))


@pytest.mark.parametrize("size", [(8, 8), (11, 6)], ids=["even", "odd"])
def test_it_computes_what_torchs_layers_do(size: tuple[int, int]) -> None:
    expect_same(randomized(CONFIG), TorchUNet(), NAMES, floats(2, 3, *size))


@pytest.mark.parametrize("size", [(4, 4), (5, 9), (7, 4)])
def test_the_result_has_the_size_of_the_image(size: tuple[int, int]) -> None:
    assert CONFIG.init()(torch.randn(1, 3, *size)).shape == (1, 2, *size)


def test_what_can_not_be_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"UNet: expected at least 4 for height and width, got \[3, 8\]"):
        CONFIG.init()(torch.zeros(1, 3, 3, 8))
    with pytest.raises(ShapeError, match=r"UNet: expected \[batch, 3, height, width\]"):
        CONFIG.init()(torch.zeros(1, 1, 8, 8))
    with pytest.raises(ConfigError, match="norm: it has to fit 6 channels"):
        CONFIG.replace(norm=bl.nn.GroupNormConfig(num_groups=4, num_channels=4))
    with pytest.raises(ConfigError, match="widths: expected"):
        UNetConfig(num_classes=2, widths=(4,))
