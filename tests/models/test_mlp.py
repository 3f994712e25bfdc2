"""Multi-layer perceptrons: torch's layers with the same weights, and what is refused."""

from typing import Any

import pytest
import torch
from torch import nn

import burnlike as bl
from burnlike.errors import ConfigError, ShapeError
from burnlike.models import MlpConfig

from .beside_torch import expect_same, floats, randomized

CONFIG = MlpConfig(sizes=(6, 5, 4, 3))


@pytest.mark.parametrize(
    ("config", "layers", "names"),
    [
        (
            CONFIG,
            lambda: (nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)),
            {r"^layers\.1": "2", r"^layers\.2": "4", r"^layers\.0": "0"},
        ),
        (
            CONFIG.replace(sizes=(6, 4, 3), norm=bl.nn.LayerNormConfig(d_model=1), activation=bl.nn.GeluConfig()),
            lambda: (nn.Linear(6, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 3)),
            {r"^layers\.1": "3", r"^layers\.0": "0", r"^norms\.0": "1"},
        ),
        (
            CONFIG.replace(sizes=(6, 4, 3), norm=bl.nn.BatchNormConfig(num_features=1), bias=False),
            lambda: (nn.Linear(6, 4, bias=False), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3, bias=False)),
            {r"^layers\.1": "3", r"^layers\.0": "0", r"^norms\.0": "1"},
        ),
        (CONFIG.replace(sizes=(6, 3)), lambda: (nn.Linear(6, 3),), {r"^layers\.0": "0"}),
    ],
    ids=["plain", "layer norm", "batch norm", "no hidden layer"],
)
def test_it_computes_what_torchs_layers_do(config: MlpConfig, layers: Any, names: dict[str, str]) -> None:
    expect_same(randomized(config), nn.Sequential(*layers()), names, floats(4, 6))


def test_hidden_values_are_dropped_in_training() -> None:
    model = CONFIG.replace(dropout=0.5).init()
    x = torch.randn(8, 6)
    assert not torch.equal(model(x), model(x))
    assert torch.equal(model.eval()(x), model(x))


def test_what_can_not_be_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"sizes.2: the norm can't have 4 features: .*num_groups"):
        CONFIG.replace(norm=bl.nn.GroupNormConfig(num_groups=5, num_channels=5))
    with pytest.raises(ConfigError, match="sizes: expected"):
        MlpConfig(sizes=(3,))
    with pytest.raises(ShapeError, match=r"Mlp: expected \[..., 6\], got \[2, 5\]"):
        CONFIG.init()(torch.zeros(2, 5))


def test_sizes_that_the_data_says_may_be_left_out() -> None:
    config = MlpConfig(hidden=(5, 4))
    assert config.lacks_sizes
    assert config.for_sizes(6, 3) == CONFIG
    assert MlpConfig(hidden=()).for_sizes(6, 3).all_sizes == (6, 3)
    assert config.for_sizes(6, None) == config
    assert CONFIG.for_sizes(9, 9) == CONFIG
    with pytest.raises(ConfigError, match=r"write `sizes: \[INPUT, 5, 4, OUTPUT\]`"):
        config.init()
    for wrong in ({}, {"sizes": (6, 3), "hidden": (5,)}):
        with pytest.raises(ConfigError, match="expected either all `sizes`, or the `hidden` ones"):
            MlpConfig(**wrong)
