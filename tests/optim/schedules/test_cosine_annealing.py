"""The cosine schedule: Burn's values, warm-up, and a record that continues it."""

from collections.abc import Callable
from typing import Any

import pytest

from burnlike.errors import ConfigError
from burnlike.optim import CosineAnnealingConfig


def test_values_are_burns_also_after_loading(golden: Callable[[str], dict[str, Any]]) -> None:
    values = golden("lr_cosine")
    fields = {key: value for key, value in values["config"].items() if key != "type"}
    scheduler = CosineAnnealingConfig(**fields).init()
    assert [scheduler.step() for _ in range(5)] == pytest.approx(values["lr_before_save"], abs=1e-15)
    fresh = CosineAnnealingConfig(**fields).init().load_record(scheduler.to_record())
    assert [fresh.step() for _ in range(6)] == pytest.approx(values["lr_after_load"], abs=1e-15)


def test_warm_up_rises_by_equal_parts_and_ends_at_the_minimum() -> None:
    scheduler = CosineAnnealingConfig(initial_lr=0.8, min_lr=0.2, warmup_steps=4).init(num_iters=10)
    rates = [scheduler.step() for _ in range(11)]
    assert rates[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.8])
    assert rates[4:] == sorted(rates[4:], reverse=True)
    assert rates[7] == pytest.approx(0.5)
    assert rates[10] == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"initial_lr": 0.0}, "initial_lr"),
        ({"initial_lr": 1.5}, "initial_lr"),
        ({"initial_lr": 0.1, "min_lr": 0.2}, "min_lr"),
        ({"initial_lr": 0.1, "num_iters": 0}, "num_iters"),
    ],
)
def test_wrong_values_are_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CosineAnnealingConfig(**fields)


def test_a_length_is_needed() -> None:
    with pytest.raises(ConfigError, match="set num_iters"):
        CosineAnnealingConfig(initial_lr=0.1).init()
    with pytest.raises(ConfigError, match=r"warmup_steps \(9\) leaves nothing of a run of 9 steps"):
        CosineAnnealingConfig(initial_lr=0.1, warmup_steps=9).init(num_iters=9)
