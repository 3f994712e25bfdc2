"""Records loaded into schedulers, and their next rates."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from burnlike import optim
from burnlike.config import LrSchedulerConfig
from burnlike.optim import LrScheduler

from .files import RecordFile, leaves_of
from .folder import Golden
from .modules import Case
from .outcomes import CheckError, expect

# Rates are computed in float64 on both sides; cos and powers of two C libraries differ by a unit of 2^-53 of the value,
# which a difference of almost equal numbers (the foot of the cosine) makes larger.
RELATIVE, ABSOLUTE = 1e-12, 1e-15
_TYPES: Mapping[str, type[LrSchedulerConfig]] = {
    **dict.fromkeys(["ConstantLr", "Constant"], optim.ConstantLrConfig),
    "Linear": optim.LinearLrConfig,
    "CosineAnnealing": optim.CosineAnnealingConfig,
    "Exponential": optim.ExponentialLrConfig,
    "Noam": optim.NoamLrConfig,
    "Step": optim.StepLrConfig,
    "Composed": optim.ComposedLrConfig,
    "Sequential": optim.SequentialLrConfig,
}


def config_of(config: Mapping[str, Any], restart: bool) -> LrSchedulerConfig:
    """The config of burnlike for one of Burn's.

    Args:
        config: Burn's.
        restart: whether cosines restart, as in Burn 0.21.

    Raises:
        CheckError: its type is unknown.
    """
    kind = str(config.get("type")).removesuffix("LrScheduler")
    if kind not in _TYPES:
        raise CheckError(f"the type {config.get('type')!r} is unknown")
    fields = {name: value for name, value in config.items() if name != "type"}
    if kind == "CosineAnnealing":
        fields["restart"] = restart
    if "schedulers" in fields:
        fields["schedulers"] = [config_of(below, restart) for below in fields["schedulers"]]
    if "reduction" in fields:
        fields["reduction"] = fields["reduction"].lower()
    return _TYPES[kind](**fields)


def scheduler_cases(golden: Golden, files: list[RecordFile]) -> Iterator[Case]:
    """The cases of a scheduler."""
    values = golden.values

    def fresh() -> LrScheduler:
        return config_of(values["config"], golden.is_burn_0_21).init()

    def stepped() -> LrScheduler:
        scheduler = fresh()
        for _ in values["lr_before_save"]:
            scheduler.step()
        return scheduler

    yield "rates before saving", lambda: _check_rates(fresh(), values["lr_before_save"])
    for file in files:
        yield f"state of {file.name}", lambda file=file: _check_state(stepped(), file)
        yield (
            f"rates after loading {file.name}",
            lambda file=file: _check_rates(fresh().load_record(file.record), values["lr_after_load"]),
        )


def _check_rates(scheduler: LrScheduler, expected: list[float]) -> None:
    found = [scheduler.step() for _ in expected]
    close = [math.isclose(*pair, rel_tol=RELATIVE, abs_tol=ABSOLUTE) for pair in zip(found, expected, strict=True)]
    expect(all(close), f"the rates are {found}, expected {expected}")


def _check_state(scheduler: LrScheduler, file: RecordFile) -> None:
    record = scheduler.into_record("0.21" if file.golden.is_burn_0_21 else "0.22")
    found, expected = dict(leaves_of(record)), dict(leaves_of(file.record))
    expect(found == expected, f"the state is {found}, expected {expected}")
    file.check_rewritten(record, file.stored_precision())
