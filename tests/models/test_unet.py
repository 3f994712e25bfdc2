"""U-Nets: the same in torch's layers, sizes, and what is refused."""

import pytest
import torch

import burnlike as bl
from benchmarks.models.torch_unet import NAMES, UNet
from burnlike.errors import ConfigError, ShapeError
from burnlike.models import UNetConfig

from .beside_torch import expect_same, floats, randomized

CONFIG = UNetConfig(num_classes=2, widths=(4, 6, 8))


@pytest.mark.parametrize("size", [(8, 8), (11, 6)], ids=["even", "odd"])
def test_it_computes_what_torchs_layers_do(size: tuple[int, int]) -> None:
    expect_same(randomized(CONFIG), UNet(CONFIG), NAMES, floats(2, 3, *size))


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
