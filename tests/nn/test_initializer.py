"""Initializers: the spread each rule promises."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike import nn
from burnlike.errors import ConfigError
from tests.module.cases import case

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


VECTORS = Path(__file__).parent.parent / "vectors" / "module_core.json"
BURNS: dict[str, Any] = {entry["id"]: entry.get("numbers") for entry in json.loads(VECTORS.read_text())}


@case("init/uniform", "init/kaiming_uniform_bias", "init/kaiming_uniform_fan_out")
@pytest.mark.parametrize(
    ("rule", "fans", "low", "high", "shape"),
    [
        (nn.Uniform(min=0.0, max=1.0), {}, 0.0, BURNS["init/uniform"]["max"], BURNS["init/uniform"]["shape"]),
        (nn.KaimingUniform(gain=2.0), {"fan_in": 5}, -1.0, *BURNS["init/kaiming_uniform_bias"].values()),
        (
            nn.KaimingUniform(gain=2.0, fan_out_only=True),
            {"fan_out": 6},
            -1.0,
            *BURNS["init/kaiming_uniform_fan_out"].values(),
        ),
    ],
)
def test_uniform_rules_have_burns_bounds(
    rule: nn.Initializer, fans: dict[str, int], low: float, high: float, shape: list[int]
) -> None:
    low *= high
    for values in (rule.init(shape, **fans), rule.init([1000, *shape], **fans)):
        assert values.min() >= low
        assert values.max() < high
    assert values.min() < low + 0.01
    assert values.max() > high - 0.01


@case("init/normal", "init/kaiming_normal", "init/xavier_normal")
@pytest.mark.parametrize(
    ("rule", "shape", "fans", "variance"),
    [
        (nn.Normal(mean=0.0, std=1.0), [BURNS["init/normal"]["n"]], {}, 1.0),
        (nn.KaimingNormal(gain=2.0), [10, 1000], {"fan_in": 1000}, BURNS["init/kaiming_normal"]["var"]),
        (
            nn.XavierNormal(gain=2.0),
            [10, 1000],
            {"fan_in": 1000, "fan_out": 10},
            BURNS["init/xavier_normal"]["var"],
        ),
    ],
)
def test_normal_rules_have_burns_variance(
    rule: nn.Initializer, shape: list[int], fans: dict[str, int], variance: float
) -> None:
    values = rule.init(shape, **fans).detach()
    assert values.var().item() == pytest.approx(variance, rel=0.05)
    assert values.mean().item() == pytest.approx(0, abs=0.05 * math.sqrt(variance))


@case("init/constant", "init/zeros", "init/orthogonal_correct", "init/orthogonal_shapes")
def test_constants_and_orthogonal_matrices_are_burns() -> None:
    assert nn.Constant(value=5.0).init([2, 2, 2, 2]).sum() == BURNS["init/constant"]["sum"]
    assert nn.Zeros().init([2, 2, 2, 2]).sum() == BURNS["init/zeros"]["sum"]
    matrix = nn.Orthogonal(gain=1.0).init(BURNS["init/orthogonal_correct"]["shape"]).detach()
    torch.testing.assert_close(matrix.T @ matrix, torch.eye(10), rtol=1e-5, atol=1e-5)
    for shape in BURNS["init/orthogonal_shapes"]["shapes"]:
        assert list(nn.Orthogonal(gain=1.0).init(shape).shape) == shape


@case("init/kaiming_uniform_no_fan", "init/xavier_no_fan")
@pytest.mark.parametrize("rule", [nn.KaimingUniform(gain=2.0), nn.XavierUniform(gain=2.0)])
def test_rules_that_need_fans_refuse_to_guess(rule: nn.Initializer) -> None:
    with pytest.raises(ConfigError, match="needs fan_in"):
        rule.init([2, 2])


@case("init/linear_golden")
@pytest.mark.parametrize("d_input", [5, 25, 125])
def test_layers_start_within_burns_range(d_input: int) -> None:
    bound = BURNS["init/linear_golden"][f"n_{d_input}"]
    linear = nn.LinearConfig(d_input=d_input, d_output=2000).init()
    for values in (linear.weight, linear.bias):
        assert -bound <= values.min() < -0.99 * bound
        assert 0.99 * bound < values.max() <= bound
