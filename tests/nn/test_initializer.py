"""Initializers: the spread each rule promises."""

import math

import pytest
import torch

from burnlike import nn
from burnlike.errors import ConfigError

FANS = {"fan_in": 200, "fan_out": 50}
SHAPE = [200, 500]


@pytest.mark.parametrize(
    ("rule", "bound"),
    [
        (nn.Uniform(min=-0.3, max=0.3), 0.3),
        (nn.KaimingUniform(gain=2.0), math.sqrt(3) * 2 / math.sqrt(200)),
        (nn.KaimingUniform(fan_out_only=True), 1 / math.sqrt(50)),
        (nn.XavierUniform(gain=2.0), math.sqrt(3) * 2 * math.sqrt(2 / 250)),
    ],
)
def test_uniform_rules_fill_their_interval(rule: nn.Initializer, bound: float) -> None:
    values = rule.init(SHAPE, **FANS).detach()
    assert values.abs().max() <= bound
    assert values.abs().max() > 0.995 * bound
    assert values.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)
    assert values.mean().item() == pytest.approx(0, abs=0.02 * bound)


@pytest.mark.parametrize(
    ("rule", "mean", "std"),
    [
        (nn.Normal(mean=1.5, std=0.2), 1.5, 0.2),
        (nn.KaimingNormal(gain=2.0), 0.0, 2 / math.sqrt(200)),
        (nn.KaimingNormal(gain=1.0, fan_out_only=True), 0.0, 1 / math.sqrt(50)),
        (nn.XavierNormal(), 0.0, math.sqrt(2 / 250)),
    ],
)
def test_normal_rules_have_their_moments(rule: nn.Initializer, mean: float, std: float) -> None:
    values = rule.init(SHAPE, **FANS).detach()
    assert values.mean().item() == pytest.approx(mean, abs=0.02 * std)
    assert values.std().item() == pytest.approx(std, rel=0.02)


@pytest.mark.parametrize(("rule", "value"), [(nn.Zeros(), 0.0), (nn.Ones(), 1.0), (nn.Constant(value=2.5), 2.5)])
def test_constants(rule: nn.Initializer, value: float) -> None:
    assert torch.equal(rule.init([3, 2]), torch.full((3, 2), value))


@pytest.mark.parametrize("shape", [[5, 3], [3, 5], [4, 2, 3]])
def test_orthogonal_rows_or_columns(shape: list[int]) -> None:
    matrix = nn.Orthogonal(gain=2.0).init(shape).detach().flatten(1)
    product = matrix @ matrix.T if matrix.shape[0] < matrix.shape[1] else matrix.T @ matrix
    torch.testing.assert_close(product, 4.0 * torch.eye(product.shape[0]), rtol=1e-5, atol=1e-5)


def test_a_seed_repeats_the_values_and_they_require_grad() -> None:
    torch.manual_seed(1)
    first = nn.Normal().init([4])
    torch.manual_seed(1)
    assert torch.equal(nn.Normal().init([4]), first)
    assert first.requires_grad


def test_nothing_is_drawn_on_the_meta_device() -> None:
    before = torch.get_rng_state()
    assert nn.Orthogonal().init([4, 4], device="meta").is_meta
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("rule", "message"),
    [(nn.KaimingUniform(), "needs fan_in"), (nn.XavierNormal(), "needs fan_in"), (nn.Orthogonal(), "rank 2 or more")],
)
def test_a_rule_without_what_it_needs_says_so(rule: nn.Initializer, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        rule.init([4])
