"""Residual networks: torchvision's with the same weights, sizes, presets, and what is refused."""

from typing import Any

import pytest
import torch

import burnlike as bl
from benchmarks.models.torch_resnet import NAMES, ResNet
from burnlike.errors import ConfigError, ShapeError
from burnlike.models import ResNetConfig

from .beside_torch import expect_same, floats, randomized

BASIC = ResNetConfig(num_classes=5, depths=(1, 2, 1, 1), widths=(4, 6, 8, 8), stem_channels=4)
BOTTLENECK = BASIC.replace(block="Bottleneck", widths=(8, 16, 16, 32))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("config", [BASIC, BOTTLENECK], ids=["basic", "bottleneck"])
def test_it_computes_what_torchvisions_does(config: ResNetConfig, training: bool) -> None:
    expect_same(randomized(config).train(training), ResNet(config), NAMES, floats(2, 3, 37, 40))


@pytest.mark.parametrize(
    ("preset", "count"),
    # The numbers of parameters that torchvision's documentation gives of its models.
    [
        (ResNetConfig.resnet18, 11_689_512),
        (ResNetConfig.resnet34, 21_797_672),
        (ResNetConfig.resnet50, 25_557_032),
        (ResNetConfig.resnet101, 44_549_160),
        (ResNetConfig.resnet152, 60_192_808),
    ],
)
def test_presets_have_as_many_parameters_as_torchvisions(preset: Any, count: int) -> None:
    assert sum(it.numel() for it in preset().init("meta").parameters()) == count


def test_presets_take_other_fields() -> None:
    config = ResNetConfig.resnet50(
        num_classes=10, stem="Small", norm=bl.nn.GroupNormConfig(num_groups=8, num_channels=8)
    )
    model = config.init("meta")
    assert model(torch.zeros(2, 3, 32, 32, device="meta")).shape == (2, 10)


def test_features_are_those_of_each_stage() -> None:
    x = floats(2, 3, 64, 48)
    assert [list(it.shape) for it in randomized(BASIC).features(x)] == [
        [2, 4, 16, 12],
        [2, 6, 8, 6],
        [2, 8, 4, 3],
        [2, 8, 2, 2],
    ]
    small = randomized(BASIC.replace(stem="Small")).features(x)
    assert [list(it.shape[2:]) for it in small] == [[64, 48], [32, 24], [16, 12], [8, 6]]


def test_the_smallest_image_is_one_pixel() -> None:
    assert randomized(BASIC).eval()(floats(1, 3, 1, 1)).isfinite().all()


def test_with_zero_norms_every_block_starts_as_its_shortcut() -> None:
    model = BASIC.replace(zero_last=True).init()
    x = torch.randn(1, 6, 4, 4)
    assert torch.equal(model.stages[1][1](x), x.relu())


def test_a_wrong_config_is_refused_by_field() -> None:
    with pytest.raises(ConfigError, match=r"widths: expected as many as depths \(2\), got 1"):
        ResNetConfig(depths=(1, 1), widths=(8,))
    with pytest.raises(ConfigError, match=r"widths.1: expected a multiple of 4 for bottlenecks, got 6"):
        ResNetConfig(block="Bottleneck", depths=(1, 1), widths=(8, 6))
    norm = bl.nn.GroupNormConfig(num_groups=4, num_channels=4)
    with pytest.raises(ConfigError, match="norm: it has to fit 2 channels"):
        ResNetConfig(block="Bottleneck", depths=(1,), widths=(8,), norm=norm)
    with pytest.raises(ConfigError, match=r"got RmsNorm, which normalizes the last dimension"):
        ResNetConfig(norm=bl.nn.RmsNormConfig(d_model=4))


def test_other_images_are_refused() -> None:
    model = BASIC.init()
    for shape in ((2, 4, 32, 32), (3, 32, 32)):
        with pytest.raises(ShapeError, match=r"ResNet: expected \[batch, 3, height, width\]"):
            model(torch.zeros(shape))


def test_features_of_typed_tensors_are_typed() -> None:
    model = randomized(BASIC).eval()
    x = floats(1, 3, 32, 32)
    found = model.features(bl.Tensor(x, bl.Cpu()))
    for one, other in zip(found, model.features(x), strict=True):
        assert torch.equal(one.inner, other.detach())
