"""What the configs of optimizers and schedules refuse: numbers that are infinite or NaN, or out of their range."""

import math
from typing import Any

import pytest

from burnlike import optim
from burnlike.config import Config, OptimizerConfig, registry
from burnlike.errors import ConfigError
from burnlike.module import ParamGroup

NEEDED: dict[str, dict[str, Any]] = {
    "LinearLrConfig": {"initial_lr": 0.1, "final_lr": 0.0},
    "ExponentialLrConfig": {"initial_lr": 0.1, "gamma": 0.9},
    "CosineAnnealingConfig": {"initial_lr": 0.1},
    "NoamLrConfig": {"factor": 1.0},
    "StepLrConfig": {"initial_lr": 0.1, "step_size": 2},
    "ConstantLrConfig": {"lr": 0.1},
    "WarmupLrConfig": {"scheduler": optim.ConstantLrConfig(lr=0.1), "warmup_steps": 2, "initial_lr": 0.0},
    "OptimizerGroupConfig": {"params": ParamGroup.all(), "weight_decay": 0.0},
}
registry.load_built_in()
CLASSES: list[Any] = [
    *(it for it in registry.imported(OptimizerConfig).values() if it.__module__ == "burnlike.optim.rules.configs"),
    *(optim.MomentumConfig, optim.LbfgsConfig),
    *(getattr(optim, name) for name in NEEDED),
]


def numbers() -> list[tuple[type[Config], str]]:
    """Each field that holds a float."""
    found = []
    for cls in CLASSES:
        config = cls(**NEEDED.get(cls.__name__, {}))
        found += [(cls, name) for name in cls.__struct_fields__ if type(getattr(config, name)) is float]
    return found


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize(("cls", "name"), numbers(), ids=lambda it: getattr(it, "__name__", str(it)))
def test_what_is_not_finite_is_refused(cls: type[Config], name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=name):
        cls(**{**NEEDED.get(cls.__name__, {}), name: value})


OUT_OF_RANGE: dict[type[Config], list[tuple[str, Any]]] = {
    optim.MomentumConfig: [("momentum", 1.0), ("momentum", -0.1), ("dampening", 1.1)],
    optim.AdamConfig: [
        ("beta_1", 1.0),
        ("beta_2", -0.1),
        ("epsilon", 0.0),
        ("weight_decay", -1.0),
        ("moment_1", "i32"),
    ],
    optim.LionConfig: [("beta_1", 1.0), ("beta_2", -0.1), ("weight_decay", -1.0), ("moment", "")],
    optim.MuonConfig: [
        *(("ns_steps", steps) for steps in (0, 100)),
        *(("epsilon", 0.0), ("weight_decay", -0.1), ("adjust_lr_fn", "original")),
    ],
    optim.AdaGradConfig: [("lr_decay", -0.1), ("epsilon", 0.0), ("weight_decay", -1.0)],
    optim.RmsPropConfig: [("alpha", 1.0), ("momentum", -0.1), ("epsilon", -1e-8)],
    optim.AdanConfig: [("beta_1", 1.0), ("beta_2", -0.1), ("beta_3", 1.5)],
    optim.LambConfig: [("beta_1", 1.0), ("beta_2", math.nan), ("epsilon", 0.0)],
    optim.AdafactorConfig: [
        *((name, value) for name in ("epsilon_1", "epsilon_2", "clip_threshold") for value in (0.0, -1.0)),
        *(("decay_rate", 0.0), ("decay_rate", 0.8), ("weight_decay", -0.1)),
    ],
    optim.ScheduleFreeAdamWConfig: [
        *(("beta_1", 0.0), ("beta_1", 1.0), ("r", -1.0), ("warmup_steps", -1), ("weight_lr_power", -2.0)),
    ],
}


@pytest.mark.parametrize(
    ("cls", "name", "value"), [(cls, *it) for cls, values in OUT_OF_RANGE.items() for it in values], ids=str
)
def test_what_is_out_of_range_is_refused_by_name(cls: type[Config], name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"{cls.__name__}: {name}: expected|{name} must be (positive|n)"):
        cls(**{name: value})


def test_messages_say_finite_and_leave_the_largest_float_out() -> None:
    with pytest.raises(ConfigError, match="SgdConfig: weight_decay: expected a finite number >= 0, got inf"):
        optim.SgdConfig(weight_decay=math.inf)
    with pytest.raises(ConfigError, match=r"ns_coefficients\.1: expected a finite number, got nan"):
        optim.MuonConfig(ns_coefficients=(3.0, math.nan, 2.0))
    assert optim.NoamLrConfig(factor=1e308).factor == 1e308
