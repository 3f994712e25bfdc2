"""Resizing beside the table of cases: configs, display, counterparts."""

from typing import Any

import pytest
import torch

from burnlike import nn
from burnlike.errors import ArgumentError, ConfigError, NoCounterpartError
from burnlike.interop import from_torch, to_torch
from burnlike.module import display
from burnlike.nn.interpolate import calculate_output_size


def test_exactly_one_of_size_and_factor_is_given() -> None:
    with pytest.raises(ConfigError, match="expected exactly one of output_size and scale_factor, got neither"):
        nn.Interpolate1dConfig()
    with pytest.raises(ConfigError, match="expected exactly one of output_size and scale_factor, got both"):
        nn.Interpolate2dConfig(output_size=3, scale_factor=2.0)
    with pytest.raises(ArgumentError, match="expected exactly one"):
        calculate_output_size([1, 1, 4])


def test_display_is_burns() -> None:
    sized = nn.Interpolate2dConfig(output_size=20).init()
    assert display(sized) == "Interpolate2d {mode: Nearest, output_size: Some([20, 20]), scale_factor: None}"
    scaled = nn.Interpolate1dConfig(scale_factor=2, mode="Linear").init()
    assert display(scaled) == "Interpolate1d {mode: Linear, output_size: None, scale_factor: 2}"
    both = nn.Interpolate2dConfig(scale_factor=(1.5, 2.0)).init()
    assert display(both) == "Interpolate2d {mode: Nearest, output_size: None, scale_factor: [0..2] {0: 1.5, 1: 2}}"


@pytest.mark.parametrize("mode", ["Nearest", "NearestExact", "Linear", "Cubic"])
def test_channels_last_stays(mode: Any) -> None:
    layer = nn.Interpolate2dConfig(output_size=(9, 4), mode=mode).init()
    x = torch.randn(2, 8, 7, 6)
    found = layer(x.to(memory_format=torch.channels_last))
    assert found.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(found, layer(x))


@pytest.mark.parametrize("mode", ["Nearest", "NearestExact", "Linear", "Cubic", "Lanczos"])
@pytest.mark.parametrize("align_corners", [False, True])
def test_a_constant_stays_constant_and_the_same_size_the_same(mode: Any, align_corners: bool) -> None:
    x = torch.randn(1, 2, 5, 4, dtype=torch.float64)
    same = nn.Interpolate2dConfig(output_size=(5, 4), mode=mode, align_corners=align_corners).init()
    torch.testing.assert_close(same(x), x)
    larger = nn.Interpolate1dConfig(output_size=9, mode=mode, align_corners=align_corners).init()
    torch.testing.assert_close(larger(torch.ones(1, 1, 4)), torch.ones(1, 1, 9))


@pytest.mark.parametrize(
    ("theirs", "shape"),
    [
        (torch.nn.Upsample(6), (2, 3, 4, 4)),
        (torch.nn.Upsample(scale_factor=2), (2, 3, 4, 4)),
        (torch.nn.Upsample((6,)), (2, 3, 4)),
        (torch.nn.Upsample(scale_factor=1.3, mode="linear", align_corners=True), (2, 3, 7)),
        (torch.nn.Upsample(scale_factor=1.3, mode="linear", recompute_scale_factor=True), (2, 3, 7)),
        (torch.nn.Upsample(scale_factor=(2, 3), mode="bilinear"), (2, 3, 4, 5)),
        (torch.nn.Upsample((3, 9), mode="bicubic", align_corners=True), (2, 3, 4, 5)),
        (torch.nn.Upsample((3, 9), mode="nearest-exact"), (2, 3, 4, 5)),
    ],
)
def test_torchs_layers_come_back(theirs: Any, shape: tuple[int, ...]) -> None:
    layer = from_torch(theirs)
    x = torch.randn(shape, dtype=torch.float64)
    torch.testing.assert_close(layer(x), theirs(x))
    torch.testing.assert_close(to_torch(layer)(x), theirs(x))


@pytest.mark.parametrize(
    ("theirs", "message"),
    [
        (torch.nn.Upsample(3, mode="trilinear"), "mode='trilinear' has no counterpart"),
        (torch.nn.Upsample((3, 3, 3)), "sizes of 3 dimensions have no counterpart"),
        (torch.nn.Upsample(scale_factor=1.5), "scale_factor=1.5 has no counterpart without recompute_scale_factor"),
    ],
)
def test_options_of_torch_without_counterpart(theirs: Any, message: str) -> None:
    with pytest.raises(NoCounterpartError, match=message):
        from_torch(theirs)


@pytest.mark.parametrize(
    "config",
    [nn.Interpolate1dConfig(output_size=3, mode="Cubic"), nn.Interpolate2dConfig(output_size=3, mode="Lanczos")],
)
def test_modes_that_torch_does_not_have(config: Any) -> None:
    with pytest.raises(NoCounterpartError, match="has no counterpart"):
        to_torch(config.init())
