"""Normalizations: what the table of cases does not show."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn as torch_nn

from burnlike import nn
from burnlike.config import Config
from burnlike.errors import ConfigError
from burnlike.nn.norm.norm import COUNTERPARTS
from burnlike.nn.torch_counterpart import NoCounterpartError
from burnlike.record import load, save

CONFIGS = {
    "batch": nn.BatchNormConfig(num_features=6),
    "group": nn.GroupNormConfig(num_groups=3, num_channels=6),
    "instance": nn.InstanceNormConfig(num_channels=6),
    "layer": nn.LayerNormConfig(d_model=6),
    "rms": nn.RmsNormConfig(d_model=6),
}


@pytest.mark.parametrize("config", [CONFIGS["group"], CONFIGS["instance"]])
def test_one_value_in_a_group_becomes_beta(config: nn.NormalizationConfig) -> None:
    layer = config.with_num_features(3).init()
    torch.nn.init.constant_(layer.beta, 2.0)
    torch.testing.assert_close(layer(torch.randn(1, 3)), torch.full((1, 3), 2.0), atol=1e-4, rtol=0)


def test_groups_must_divide_the_channels() -> None:
    with pytest.raises(ConfigError, match=r"num_groups: expected a divisor of num_channels \(4\), got 3"):
        nn.GroupNormConfig(num_groups=3, num_channels=4)
    with pytest.raises(ConfigError, match="num_groups"):
        CONFIGS["group"].with_num_features(8)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_the_number_of_features_is_set_by_one_name(config: nn.NormalizationConfig) -> None:
    assert config.num_features == 6
    assert config.with_num_features(12).num_features == 12
    assert type(config.with_num_features(12)) is type(config)


def test_the_role_is_read_from_yaml() -> None:
    class BlockConfig(Config):
        norm: nn.NormalizationConfig

    read = BlockConfig.from_yaml("norm: {type: GroupNorm, num_groups: 2, num_channels: 4}")
    assert read.norm == nn.GroupNormConfig(num_groups=2, num_channels=4)
    with pytest.raises(ConfigError, match="LocalResponseNorm"):
        BlockConfig.from_yaml("norm: {type: LocalResponseNorm, size: 3}")


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(sorted(CONFIGS)), st.integers(1, 3), st.lists(st.integers(1, 3), max_size=3), st.booleans())
def test_shapes_on_the_meta_device_and_gradients(name: str, batch: int, sizes: list[int], train: bool) -> None:
    config = CONFIGS[name]
    shape = (batch, *sizes, 6) if name in ("layer", "rms") else (batch, 6, *sizes)
    layer = config.init().double().train(train)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    assert layer(x).shape == config.init("meta").train(train)(x.to("meta")).shape == x.shape
    assert torch.autograd.gradcheck(layer, x, atol=1e-4)


@pytest.mark.parametrize(
    "layer",
    [
        torch_nn.BatchNorm1d(3, affine=False),
        torch_nn.BatchNorm2d(3, track_running_stats=False),
        torch_nn.BatchNorm3d(3, momentum=None),
        torch_nn.InstanceNorm2d(3, track_running_stats=True),
        torch_nn.LayerNorm((2, 3)),
        torch_nn.LayerNorm(3, elementwise_affine=False),
        torch_nn.RMSNorm(3, elementwise_affine=False),
        torch_nn.LocalResponseNorm(2),
    ],
    ids=repr,
)
def test_options_that_only_torch_has_are_refused(layer: torch_nn.Module) -> None:
    (found,) = [it for it in COUNTERPARTS if it.torch is type(layer)]
    with pytest.raises(NoCounterpartError, match=type(layer).__name__):
        found.config(layer)


def test_an_even_window_is_refused_in_torch() -> None:
    (found,) = [it for it in COUNTERPARTS if it.layer == "LocalResponseNorm"]
    with pytest.raises(NoCounterpartError, match="even"):
        found.build(nn.LocalResponseNormConfig(size=2).init(), torch.device("cpu"))


@pytest.mark.parametrize(
    ("layer", "config"),
    [
        (torch_nn.BatchNorm1d(3, 1e-3, 0.2), nn.BatchNormConfig(num_features=3, epsilon=1e-3, momentum=0.2)),
        (torch_nn.InstanceNorm3d(3), nn.InstanceNormConfig(num_channels=3, affine=False)),
        (torch_nn.LayerNorm(3, bias=False), nn.LayerNormConfig(d_model=3, bias=False)),
        (torch_nn.GroupNorm(2, 4, affine=False), nn.GroupNormConfig(num_groups=2, num_channels=4, affine=False)),
        (torch_nn.RMSNorm(3), nn.RmsNormConfig(d_model=3, epsilon=torch.finfo(torch.float32).eps)),
        (torch_nn.LocalResponseNorm(3, k=2.0), nn.LocalResponseNormConfig(size=3, k=2.0)),
    ],
    ids=lambda it: type(it).__name__,
)
def test_the_config_of_torchs_layer(layer: torch_nn.Module, config: Config) -> None:
    (found,) = [it for it in COUNTERPARTS if it.torch is type(layer)]
    assert found.config(layer) == config
    built = found.build(config.init(), torch.device("cpu"))
    assert found.config(built) == config


@pytest.mark.parametrize("config", [*CONFIGS.values(), nn.IdentityConfig()], ids=[*CONFIGS, "identity"])
def test_the_enum_computes_what_its_variant_does(config: nn.NormalizationConfig) -> None:
    norm = nn.Normalization.of(config.with_num_features(12))
    assert norm.variant.lower() in type(norm.value).__name__.lower()
    assert norm.num_features == (12 if norm.variant != "Identity" else 0)
    x = torch.randn(2, 12, 3, 12)
    assert torch.equal(norm(x), norm.value(x))


def test_the_enum_without_parameters_knows_its_features() -> None:
    config = nn.GroupNormConfig(num_groups=2, num_channels=4, affine=False)
    assert nn.Normalization.of(config).num_features == 4


def test_the_enum_is_saved_with_its_variant(tmp_path: Path) -> None:
    norm, other = nn.Normalization.of(CONFIGS["layer"]), nn.Normalization.of(CONFIGS["layer"])
    torch.nn.init.normal_(norm.value.gamma)
    for name in ("norm.safetensors", "norm.mpk"):
        load(other, save(norm, tmp_path / name))
        assert torch.equal(other.value.gamma, norm.value.gamma)


def test_a_second_derivative_of_rms_norm_is_that_of_torch() -> None:
    layer, x = nn.RmsNormConfig(d_model=6).init().double(), torch.randn(3, 6, dtype=torch.float64, requires_grad=True)

    def penalty(y: torch.Tensor) -> torch.Tensor:
        (gradient,) = torch.autograd.grad(y.sin().sum(), x, create_graph=True)
        return torch.autograd.grad(gradient.square().sum(), x)[0]

    expected = penalty(torch_nn.functional.rms_norm(x, (6,), eps=layer.epsilon))
    torch.testing.assert_close(penalty(layer(x)), expected)
