"""No number in the config of an optimizer or a schedule may be infinite or NaN."""

import math
from typing import Any

import pytest

from burnlike import optim
from burnlike.config import Config
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
CLASSES: list[Any] = [
    *(optim.SgdConfig, optim.AdamConfig, optim.AdamWConfig, optim.LionConfig, optim.MomentumConfig),
    *(optim.AdaGradConfig, optim.RmsPropConfig, optim.AdanConfig, optim.LambConfig, optim.AdafactorConfig),
    *(optim.ScheduleFreeAdamWConfig, optim.MuonConfig, optim.LbfgsConfig),
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


def test_messages_say_finite_and_leave_the_largest_float_out() -> None:
    with pytest.raises(ConfigError, match="SgdConfig: weight_decay: expected a finite number >= 0, got inf"):
        optim.SgdConfig(weight_decay=math.inf)
    with pytest.raises(ConfigError, match=r"ns_coefficients\.1: expected a finite number, got nan"):
        optim.MuonConfig(ns_coefficients=(3.0, math.nan, 2.0))
    assert optim.NoamLrConfig(factor=1e308).factor == 1e308
