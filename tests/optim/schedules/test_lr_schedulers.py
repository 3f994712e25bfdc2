"""All schedules: Burn's values, wrong configs, and records of every form that continue them bit for bit."""

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from burnlike.config import Config, LrSchedulerConfig
from burnlike.errors import ConfigError, RecordError, RecordMismatchError
from burnlike.optim import (
    ComposedLrConfig,
    ConstantLrConfig,
    CosineAnnealingConfig,
    ExponentialLrConfig,
    LinearLrConfig,
    LrScheduler,
    NoamLrConfig,
    SequentialLrConfig,
    StepLrConfig,
)
from burnlike.record import (
    BinFileRecorder,
    BurnpackRecorder,
    JsonGzFileRecorder,
    NamedMpkFileRecorder,
    Record,
    SafetensorsRecorder,
)

TYPES: dict[str, type[LrSchedulerConfig]] = {
    "Linear": LinearLrConfig,
    "Exponential": ExponentialLrConfig,
    "Cosine": CosineAnnealingConfig,
    "Step": StepLrConfig,
    "Noam": NoamLrConfig,
    "Sequential": SequentialLrConfig,
}
LINEAR = LinearLrConfig(initial_lr=0.01, final_lr=1.0, num_iters=4)
COSINE = CosineAnnealingConfig(initial_lr=1.0, num_iters=10)
EXPONENTIAL = ExponentialLrConfig(initial_lr=1.0, gamma=0.9)
NOAM = NoamLrConfig(factor=0.5, warmup_steps=4, model_size=64)
CONSTANT = ConstantLrConfig(lr=0.1)
STEP = StepLrConfig(initial_lr=1.0, step_size=3, gamma=0.5)
COMPOSED = ComposedLrConfig(schedulers=[LINEAR, COSINE, EXPONENTIAL, NOAM], reduction="avg")
SEQUENTIAL = SequentialLrConfig(
    schedulers=[LINEAR, CONSTANT, ComposedLrConfig(schedulers=[STEP, COSINE])], milestones=[3, 5]
)
RESTARTED = CosineAnnealingConfig(initial_lr=1.0, num_iters=3, warmup_steps=2, restart=True)
BURN_0_21 = [LINEAR, COSINE, EXPONENTIAL, NOAM, CONSTANT, STEP, COMPOSED]
ALL = [*BURN_0_21, SEQUENTIAL, RESTARTED]


def kind(config: Config) -> str:
    return type(config).__name__


def config_of(name: str, fields: dict[str, Any]) -> LrSchedulerConfig:
    if "schedulers" in fields:
        children = [config_of(*item) for child in fields["schedulers"] for item in child.items()]
        fields = {**fields, "schedulers": children}
    return TYPES[name](**fields)


def rates(scheduler: LrScheduler, count: int) -> list[float]:
    return [scheduler.step() for _ in range(count)]


def test_sums_and_averages() -> None:
    children = [ConstantLrConfig(lr=0.1), STEP]
    assert rates(ComposedLrConfig(schedulers=children, reduction="sum").init(), 4) == pytest.approx(
        [1.1, 1.1, 1.1, 0.6]
    )
    assert rates(ComposedLrConfig(schedulers=children, reduction="avg").init(), 1) == pytest.approx([0.55])


def test_the_cosine_restarts_as_in_burn_0_21_after_its_warm_up() -> None:
    found = rates(RESTARTED.init(), 10)
    assert found[:6] == pytest.approx([0.5, 1.0, 1.0, 0.75, 0.25, 0.0])
    assert found[6:] == found[2:6]


def test_schedules_without_a_length_take_that_of_the_run() -> None:
    linear = LinearLrConfig(initial_lr=1.0, final_lr=0.5)
    assert rates(linear.init(num_iters=2), 3) == [1.0, 0.75, 0.5]
    two = SequentialLrConfig(schedulers=[linear, CosineAnnealingConfig(initial_lr=0.5)], milestones=[4]).init(
        num_iters=6
    )
    assert rates(two, 7) == pytest.approx([1.0, 0.875, 0.75, 0.625, 0.5, 0.25, 0.0])
    assert rates(ComposedLrConfig(schedulers=[linear]).init(num_iters=1), 2) == [1.0, 0.5]
    with pytest.raises(ConfigError, match="LinearLr: set num_iters"):
        linear.init()


# What Burn refuses, in the words of its messages (`lr_scheduler_config_errors` of the vectors), and the field here.
WRONG = {
    "Initial learning rate must be greater than 0 and at most 1": [
        (cls, {**fields, "initial_lr": lr}, "initial_lr")
        for cls, fields in (
            (LinearLrConfig, {"final_lr": 0.1, "num_iters": 2}),
            (ExponentialLrConfig, {"gamma": 0.5}),
            (CosineAnnealingConfig, {}),
        )
        for lr in (0.0, 1.5)
    ],
    "Final learning rate must be at least 0 and at most 1": [
        (LinearLrConfig, {"initial_lr": 0.1, "final_lr": lr}, "final_lr") for lr in (-0.1, 1.5)
    ],
    "Number of iterations must be at least 1": [
        (LinearLrConfig, {"initial_lr": 0.1, "final_lr": 0.1, "num_iters": 0}, "num_iters"),
        (CosineAnnealingConfig, {"initial_lr": 0.1, "num_iters": 0}, "num_iters"),
    ],
    "Gamma must be greater than 0 and at most 1": [
        (ExponentialLrConfig, {"initial_lr": 0.1, "gamma": gamma}, "gamma") for gamma in (0.0, 1.1)
    ],
    "Minimum learning rate must be at least 0 and at most equal to the initial learning rate": [
        (CosineAnnealingConfig, {"initial_lr": 0.1, "min_lr": lr}, "min_lr") for lr in (-0.1, 0.2)
    ],
    "Step size must be greater than 0": [(StepLrConfig, {"initial_lr": 0.1, "step_size": 0}, "step_size")],
    "Number of steps before exponential decay starts must be greater than 0": [
        (NoamLrConfig, {"factor": 1.0, "warmup_steps": 0}, "warmup_steps")
    ],
    "Model size must be greater than 0": [(NoamLrConfig, {"factor": 1.0, "model_size": 0}, "model_size")],
    "At least one scheduler is required": [
        (ComposedLrConfig, {"schedulers": []}, "schedulers"),
        (SequentialLrConfig, {"schedulers": [], "milestones": []}, "schedulers"),
    ],
    "The number of milestones must be one less than the number of schedulers": [
        (SequentialLrConfig, {"schedulers": [STEP], "milestones": [1]}, "milestones")
    ],
    "Milestones must be greater than zero and strictly increasing": [
        (SequentialLrConfig, {"schedulers": [STEP] * 3, "milestones": milestones}, "milestones")
        for milestones in ([0, 1], [2, 2], [3, 2])
    ],
}


def test_what_burn_refuses_is_refused_by_the_name_of_the_field(vectors: Callable[[str], dict[str, Any]]) -> None:
    assert WRONG.keys() == set(vectors("optim")["lr_scheduler_config_errors"])
    for cases in WRONG.values():
        for cls, fields, named in cases:
            with pytest.raises(ConfigError, match=rf"{cls.__name__}: {named}"):
                cls(**fields)


@pytest.mark.parametrize("steps", [0, 1, 5])
@pytest.mark.parametrize("config", ALL, ids=kind)
def test_records_of_every_form_continue_bit_for_bit(config: LrSchedulerConfig, steps: int, tmp_path: Path) -> None:
    scheduler = config.init()
    rates(scheduler, steps)
    forms: list[Any] = [scheduler.to_record(), scheduler.into_record()]
    if config in BURN_0_21:
        forms.append(scheduler.into_record("0.21"))
    recorders = (SafetensorsRecorder, NamedMpkFileRecorder, JsonGzFileRecorder, BinFileRecorder, BurnpackRecorder)
    for form in forms[1:]:
        without_names = form is not forms[1]
        for recorder in recorders[:-1] if without_names else recorders:
            path = recorder().save(form, tmp_path / "state")
            forms.append(recorder().load(path, form.layout))
            assert forms[-1].values == form.values
    expected = rates(copy.deepcopy(scheduler), 12)
    for form in forms:
        assert rates(config.init().load_record(form), 12) == expected


def test_states_have_burns_names_and_types() -> None:
    assert LINEAR.init().into_record().values == {"0": {"remaining_iters": 5}}
    assert COSINE.init().to_record() == {"current_iter": 2**64 - 1}
    assert STEP.init().to_record() == {"iter_idx": -1}
    assert NOAM.init().into_record("0.21").values == {"": 0}
    record = SEQUENTIAL.init().into_record()
    assert record.values == {
        "0": {"step": 0, "0": {"remaining_iters": 5}, "2": {"0": {"iter_idx": -1}, "1": {"current_iter": 2**64 - 1}}}
    }
    assert record.layout == {
        "0": {
            "step": "u64",
            "0": {"remaining_iters": "u64"},
            "2": {"0": {"iter_idx": "i64"}, "1": {"current_iter": "u64"}},
        }
    }
    assert CONSTANT.init().into_record().values == {}
    assert COMPOSED.init().into_record("0.21").values["schedulers"][1:] == [
        {"Cosine": 2**64 - 1},
        {"Exponential": 1 / 0.9},
        {"Noam": 0},
    ]


@pytest.mark.parametrize(
    "config", [LinearLrConfig(initial_lr=1.0, final_lr=0.5), CosineAnnealingConfig(initial_lr=1.0)], ids=kind
)
def test_a_run_that_goes_on_with_another_length_follows_it(config: LrSchedulerConfig) -> None:
    whole = rates(config.init(num_iters=8), 9)
    first = config.init(num_iters=4)
    rates(first, 3)
    assert rates(config.init(num_iters=8).load_record(first.to_record()), 6) == pytest.approx(whole[3:], abs=1e-15)


@pytest.mark.parametrize(
    ("config", "record", "message"),
    [
        (LINEAR, {}, r"LinearLr at 'remaining_iters': expected a number \(u64\), got None"),
        (LINEAR, {"remaining_iters": -1}, "got -1"),
        (LINEAR, {"remaining_iters": 1.5}, r"got 1\.5"),
        (LINEAR, {"remaining_iters": True}, "got True"),
        (LINEAR, {"remaining_iters": 2**64}, "got 18446744073709551616"),
        (LINEAR, {"current_iter": 1}, "expected remaining_iters, got also 'current_iter'"),
        (LINEAR, {"0": {"current_iter": 1}}, "LinearLr at '0': expected remaining_iters"),
        (LINEAR, {"0": {"remaining_iters": 1}, "1": {}}, "got also '0'"),
        (EXPONENTIAL, {"": "x"}, r"expected a number \(f64\), got 'x'"),
        (EXPONENTIAL, {"previous_lr": math.inf}, r"ExponentialLr at 'previous_lr': expected a number \(f64\), got inf"),
        (EXPONENTIAL, {"previous_lr": 10**400}, r"expected a number \(f64\), got 1000"),
        (NOAM, {"step": math.nan}, r"NoamLr at 'step': expected a number \(f64\), got nan"),
        (CONSTANT, {"": 3}, "expected its own state, got"),
        (LINEAR, {"schedulers": [{"Linear": 1}]}, "expected its own state, got"),
        (SEQUENTIAL, {"": 3}, "SequentialLr: expected its own state"),
        (COMPOSED, {"schedulers": [{"Linear": 1}]}, "a list of 4 states"),
        (
            COMPOSED,
            {"schedulers": [{"Linear": 1}] * 4},
            r"CosineAnnealing at 'schedulers\.1': expected the state of Cosine",
        ),
        (COMPOSED, {"0": {"0": {"remaining_iters": 1}}}, "expected"),
        (COMPOSED, {"0": 3}, "LinearLr at '0': expected a map, got 3"),
    ],
)
def test_records_of_others_are_refused_and_change_nothing(
    config: LrSchedulerConfig, record: dict[str, Any], message: str
) -> None:
    scheduler = config.init()
    rates(scheduler, 2)
    before = copy.deepcopy(scheduler)
    with pytest.raises(RecordMismatchError, match=message):
        scheduler.load_record(Record(values=record))
    assert scheduler.to_record() == before.to_record()


@pytest.mark.parametrize(
    "config", [SEQUENTIAL, ComposedLrConfig(schedulers=[CONSTANT]), ComposedLrConfig(schedulers=[STEP])]
)
def test_states_that_burn_0_21_does_not_know_are_named(config: LrSchedulerConfig) -> None:
    with pytest.raises(RecordError, match=r"Burn 0\.21 has no place for the state of (SequentialLr|ConstantLr|StepLr)"):
        config.init().into_record("0.21")


def test_one_scheduler_in_another_is_told_from_the_group_of_a_file() -> None:
    config = ComposedLrConfig(schedulers=[LINEAR])
    scheduler = config.init()
    rates(scheduler, 2)
    expected = rates(copy.deepcopy(scheduler), 4)
    for record in (scheduler.to_record(), scheduler.into_record().values):
        assert rates(config.init().load_record(record), 4) == expected


def test_yaml_names_them_by_type() -> None:
    class Job(Config):
        lr_scheduler: LrSchedulerConfig

    text = """
lr_scheduler:
  type: SequentialLr
  milestones: [3, 5]
  schedulers:
    - {type: LinearLr, initial_lr: 0.01, final_lr: 1.0, num_iters: 4}
    - {type: ConstantLr, lr: 0.1}
    - type: ComposedLr
      schedulers:
        - {type: StepLr, initial_lr: 1.0, step_size: 3, gamma: 0.5}
        - {type: CosineAnnealing, initial_lr: 1.0, num_iters: 10}
"""
    assert Job.from_yaml(text).lr_scheduler == SEQUENTIAL


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
