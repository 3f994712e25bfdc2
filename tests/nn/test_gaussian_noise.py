"""Gaussian noise."""

import pytest
import torch

from burnlike.errors import ConfigError
from burnlike.mlax import Key
from burnlike.module import display
from burnlike.nn import GaussianNoiseConfig

CONFIG = GaussianNoiseConfig(std=0.5)


def test_the_noise_is_normal() -> None:
    x = torch.full((20_000,), 3.0)
    for rng in (None, Key(0), torch.Generator().manual_seed(0)):
        noise = CONFIG.init()(x, rng) - x
        assert abs(noise.mean()) < 0.02
        assert abs(noise.std() - 0.5) < 0.02
        assert abs((noise.abs() < 0.5).double().mean() - 0.6827) < 0.02


def test_equal_keys_give_equal_noise() -> None:
    layer, x = CONFIG.init(), torch.zeros(10)
    assert torch.equal(layer(x, Key(1)), layer(x, Key(1)))
    assert not torch.equal(layer(x, Key(1)), layer(x, Key(2)))


def test_x_is_returned_in_evaluation_and_without_noise() -> None:
    x = torch.zeros(10)
    before = torch.get_rng_state()
    assert CONFIG.init().eval()(x) is x
    assert GaussianNoiseConfig(std=0.0).init()(x) is x
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("std", [-0.5, float("nan"), float("inf")])
def test_a_std_that_is_none_is_refused(std: float) -> None:
    with pytest.raises(ConfigError, match="std: expected"):
        GaussianNoiseConfig(std=std)


def test_its_display_is_burns() -> None:
    assert display(CONFIG.init()) == "GaussianNoise {std: 0.5}"
