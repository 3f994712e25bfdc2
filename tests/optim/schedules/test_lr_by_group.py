"""Warm-ups before any schedule, and schedules by group of parameters."""

import copy
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch
from torch import nn

from burnlike.config import Config, LrSchedulerConfig
from burnlike.errors import ArgumentError, ConfigError, RecordError, RecordMismatchError
from burnlike.module import ParamGroup, params
from burnlike.optim import (
    AdamWConfig,
    AnyLrScheduler,
    ComposedLr,
    ComposedLrConfig,
    ConstantLrConfig,
    CosineAnnealingConfig,
    ExponentialLrConfig,
    GradientsParams,
    LinearLrConfig,
    LrGroupConfig,
    ModuleLearningRate,
    ModuleLrScheduler,
    ModuleLrSchedulerConfig,
    NoamLrConfig,
    SequentialLr,
    SequentialLrConfig,
    SgdConfig,
    StepLrConfig,
    WarmupLrConfig,
)
from burnlike.record import BurnpackRecorder, Record, SafetensorsRecorder

from ..steps import train

Rate = TypeVar("Rate")
COSINE = CosineAnnealingConfig(initial_lr=0.5, min_lr=0.1)
BIAS = ParamGroup.from_predicate("bias")
CONFIG = ModuleLrSchedulerConfig(
    base=LinearLrConfig(initial_lr=1.0, final_lr=0.5, num_iters=2),
    groups=(
        LrGroupConfig(params=BIAS, scheduler=ConstantLrConfig(lr=0.25)),
        LrGroupConfig(params=ParamGroup.from_predicate("1."), scheduler=StepLrConfig(initial_lr=0.8, step_size=1)),
    ),
)


def rates(scheduler: AnyLrScheduler[Rate], count: int) -> list[Rate]:
    return [scheduler.step() for _ in range(count)]


def test_a_warm_up_rises_to_the_first_rate_and_hands_over() -> None:
    scheduler = WarmupLrConfig(scheduler=LinearLrConfig(initial_lr=0.5, final_lr=0.1), warmup_steps=4).init(num_iters=8)
    assert rates(scheduler, 9) == pytest.approx([0.125, 0.25, 0.375, 0.5, 0.5, 0.4, 0.3, 0.2, 0.1])


def test_a_warm_up_before_the_cosine_is_the_cosines_own() -> None:
    own = COSINE.replace(warmup_steps=5).init(num_iters=20)
    before = WarmupLrConfig(scheduler=COSINE, warmup_steps=5).init(num_iters=20)
    assert rates(before, 20) == pytest.approx(rates(own, 20), rel=1e-15)


def test_a_warm_up_may_begin_at_a_rate_of_its_own() -> None:
    config = WarmupLrConfig(scheduler=ConstantLrConfig(lr=1.0), warmup_steps=4, initial_lr=0.2)
    assert rates(config.init(), 6) == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 1.0])


def test_a_warm_up_within_a_sequence_rises_where_it_stands() -> None:
    inner = WarmupLrConfig(scheduler=ConstantLrConfig(lr=0.4), warmup_steps=2)
    config = SequentialLrConfig(schedulers=[ConstantLrConfig(lr=0.1), inner], milestones=[2])
    assert rates(config.init(), 5) == pytest.approx([0.1, 0.1, 0.2, 0.4, 0.4])


@pytest.mark.parametrize(
    ("config", "first"),
    [
        (ConstantLrConfig(lr=0.3), 0.3),
        (LinearLrConfig(initial_lr=0.3, final_lr=0.1), 0.3),
        (CosineAnnealingConfig(initial_lr=0.3), 0.3),
        (CosineAnnealingConfig(initial_lr=0.3, restart=True), 0.3),
        (ExponentialLrConfig(initial_lr=0.3, gamma=0.5), 0.3),
        (StepLrConfig(initial_lr=0.3, step_size=2), 0.3),
        (NoamLrConfig(factor=1.0, warmup_steps=4, model_size=64), 64**-0.5 * 4**-1.5),
        (ComposedLrConfig(schedulers=[ConstantLrConfig(lr=0.3), StepLrConfig(initial_lr=0.5, step_size=1)]), 0.15),
        (SequentialLrConfig(schedulers=[StepLrConfig(initial_lr=0.3, step_size=1)] * 2, milestones=[1]), 0.3),
        (WarmupLrConfig(scheduler=ConstantLrConfig(lr=1.0), warmup_steps=2, initial_lr=0.3), 0.3),
    ],
    ids=lambda it: type(it).__name__ if isinstance(it, Config) else "",
)
def test_the_first_rate_is_the_initial_one(config: LrSchedulerConfig, first: float) -> None:
    assert config.init(num_iters=10).step() == pytest.approx(first, rel=1e-15)
    assert ModuleLrSchedulerConfig(base=config).init(num_iters=10).step().base == pytest.approx(first, rel=1e-15)


def test_a_warm_up_leaves_the_rest_of_the_run_to_its_schedule() -> None:
    with pytest.raises(ConfigError, match=r"warmup_steps \(10\) leaves nothing of a run of 10 steps"):
        WarmupLrConfig(scheduler=COSINE, warmup_steps=10).init(num_iters=10)
    with pytest.raises(ConfigError, match="CosineAnnealing: set num_iters"):
        WarmupLrConfig(scheduler=COSINE, warmup_steps=10).init()
    with pytest.raises(ConfigError, match="warmup_steps: expected an int >= 1, got 0"):
        WarmupLrConfig(scheduler=COSINE, warmup_steps=0)


@pytest.mark.parametrize("steps", [0, 1, 3, 7])
def test_warm_ups_continue_bit_for_bit(steps: int, tmp_path: Path) -> None:
    config = WarmupLrConfig(scheduler=COSINE, warmup_steps=3)
    scheduler = config.init(num_iters=9)
    rates(scheduler, steps)
    path = SafetensorsRecorder().save(scheduler.into_record(), tmp_path / "lr")
    expected = rates(copy.deepcopy(scheduler), 5)
    for record in (scheduler.to_record(), SafetensorsRecorder().load(path)):
        assert rates(config.init(num_iters=9).load_record(record), 5) == expected


def test_each_group_has_its_schedule_and_the_groups_stay_the_same_object() -> None:
    scheduler = CONFIG.init()
    found = [scheduler.step() for _ in range(3)]
    assert [rate.base for rate in found] == [1.0, 0.75, 0.5]
    assert [rate.rates for rate in found] == [
        (0.25, pytest.approx(0.8)),
        (0.25, pytest.approx(0.08)),
        (0.25, pytest.approx(0.008)),
    ]
    assert all(rate.groups is found[0].groups for rate in found)


def test_the_last_group_that_matches_a_parameter_counts() -> None:
    model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
    rate = CONFIG.init().step()
    assert [rate.of(param) for param in params(model)] == [1.0, 0.25, 0.8, 0.8]


def test_a_step_takes_the_rate_of_each_group() -> None:
    model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1)).double()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer, scheduler = SgdConfig().init(), CONFIG.init()
    total = [0.0] * 4
    for _ in range(3):
        rate = scheduler.step()
        grads = GradientsParams()
        for place, param in enumerate(params(model)):
            grads.register(param, torch.ones_like(param.tensor))
            total[place] += [rate.base, rate.rates[0], rate.rates[1], rate.rates[1]][place]
        optimizer.step(rate, model, grads)
    for parameter, start, change in zip(model.parameters(), before, total, strict=True):
        torch.testing.assert_close(parameter.detach(), start - change)


def test_a_group_of_rates_that_matches_nothing_is_refused_before_a_step() -> None:
    model = nn.Linear(1, 1)
    kept = model.weight.detach().clone()
    rate = ModuleLearningRate(0.1, (BIAS, ParamGroup.from_predicate("bais")), (0.2, 0.3))
    optimizer = AdamWConfig().init()
    with pytest.raises(ConfigError, match=r"groups\[1\] of the learning rates matches no parameter .*weight, bias"):
        train(model, optimizer, rate)
    assert torch.equal(model.weight, kept)
    assert not optimizer.to_record().tensors
    with pytest.raises(ConfigError, match=r"groups\[1\]"):
        CONFIG.init().check(nn.Linear(1, 1))


def test_records_have_the_place_of_each_scheduler_as_in_burn(tmp_path: Path) -> None:
    scheduler = CONFIG.init()
    rates(scheduler, 2)
    record = scheduler.into_record()
    assert record.values == {"0": {"remaining_iters": 1}, "2": {"iter_idx": 1}}
    assert scheduler.to_record()["2"] == {"iter_idx": 1}
    files = [
        recorder.load(recorder.save(record, tmp_path / "lr"))
        for recorder in (BurnpackRecorder(), SafetensorsRecorder())
    ]
    expected = rates(copy.deepcopy(scheduler), 3)
    for form in (scheduler.to_record(), record, *files):
        assert rates(CONFIG.init().load_record(form), 3) == expected


def test_the_record_of_a_schedule_alone_is_that_of_the_base(tmp_path: Path) -> None:
    alone = COSINE.init(num_iters=4)
    rates(alone, 2)
    module = ModuleLrSchedulerConfig(base=COSINE).init(num_iters=4).load_record(alone.into_record())
    assert [rate.base for rate in rates(module, 3)] == rates(alone, 3)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, r"LinearLr at '0\.remaining_iters': expected a number"),
        (
            {"0": {"remaining_iters": 1}, "2": {"iter_idx": 1}, "3": {}},
            "ModuleLrScheduler: expected 0, 1, 2, got also '3'",
        ),
        ({"0": {"remaining_iters": 1}, "2": {"iter_idx": "x"}}, r"StepLr at '2\.iter_idx'"),
        ({"": 3}, "got also ''"),
    ],
)
def test_records_of_others_change_nothing(values: dict[str, Any], message: str) -> None:
    scheduler = CONFIG.init()
    scheduler.step()
    before = scheduler.to_record()
    with pytest.raises(RecordMismatchError, match=message):
        scheduler.load_record(Record(values=values))
    assert scheduler.to_record() == before


def test_burn_0_21_has_no_schedules_by_group() -> None:
    with pytest.raises(RecordError, match=r"Burn 0\.21 has no place for the state of ModuleLrScheduler"):
        CONFIG.init().into_record("0.21")


@pytest.mark.parametrize(
    ("cls", "fields", "path"),
    [
        (ComposedLrConfig, {"schedulers": [CONFIG]}, "schedulers.0"),
        (SequentialLrConfig, {"schedulers": [COSINE, CONFIG], "milestones": [1]}, "schedulers.1"),
        (WarmupLrConfig, {"scheduler": CONFIG, "warmup_steps": 1}, "scheduler"),
        (ModuleLrSchedulerConfig, {"base": CONFIG}, "base"),
        (
            ModuleLrSchedulerConfig,
            {"base": COSINE, "groups": [LrGroupConfig(params=BIAS, scheduler=CONFIG)]},
            "groups.0.scheduler",
        ),
    ],
)
def test_groups_of_schedules_are_outermost(cls: type[LrSchedulerConfig], fields: dict[str, Any], path: str) -> None:
    with pytest.raises(ConfigError, match=f"{cls.__name__}: {path}: expected one schedule, got ModuleLrScheduler"):
        cls(**fields)


def test_yaml_has_them() -> None:
    class Job(Config):
        lr_scheduler: LrSchedulerConfig

    text = """
lr_scheduler:
  type: ModuleLrScheduler
  base: {type: LinearLr, initial_lr: 1.0, final_lr: 0.5, num_iters: 2}
  groups:
    - params: {match: [{type: Predicates, predicates: [bias]}]}
      scheduler: {type: ConstantLr, lr: 0.25}
    - params: {match: [{type: Predicates, predicates: ['1.']}]}
      scheduler: {type: StepLr, initial_lr: 0.8, step_size: 1}
"""
    assert Job.from_yaml(text).lr_scheduler == CONFIG
    assert Job.from_yaml(Job(lr_scheduler=CONFIG).to_yaml()).lr_scheduler == CONFIG


def test_one_schedule_object_in_two_places_is_refused() -> None:
    """It would advance twice in each step, which no config can say."""
    schedule, group = CosineAnnealingConfig(initial_lr=0.1, num_iters=10).init(), ParamGroup.all()
    for make in (
        lambda: ModuleLrScheduler(schedule, [(group, schedule)]),
        lambda: ComposedLr([schedule, schedule]),
        lambda: SequentialLr([schedule, schedule], [3]),
    ):
        with pytest.raises(ArgumentError, match=r"schedulers 0 and 1 are one CosineAnnealing.*make one for each"):
            make()
    config = CosineAnnealingConfig(initial_lr=0.1, num_iters=10)
    both = ModuleLrSchedulerConfig(base=config, groups=(LrGroupConfig(params=group, scheduler=config),)).init()
    alone = config.init()
    for _ in range(3):
        rate, expected = both.step(), alone.step()
        assert (rate.base, *rate.rates) == (expected, expected)
