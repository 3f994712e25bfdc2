"""Micro-batches train as big batches do, in a loop and in a run from YAML; schedules by group train."""

import copy
import io
import math
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from burnlike.data import DataLoader, InMemDataset
from burnlike.errors import CheckpointError, ConfigError
from burnlike.module import ParamGroup
from burnlike.optim import (
    AdamWConfig,
    AnyLrScheduler,
    ConstantLrConfig,
    CosineAnnealingConfig,
    LrGroupConfig,
    ModuleLrSchedulerConfig,
)
from burnlike.train import (
    Checkpointer,
    Interrupted,
    Interrupter,
    Job,
    Learner,
    MetricsLog,
    PlainRenderer,
    RunDir,
    StepOutput,
    TrainingConfig,
)
from burnlike.train.parallel.single_process import SingleProcess

from .samples import files_of, load_config, metrics_of

ROWS = torch.randn(22, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


class Rows:
    """Rows of three numbers."""

    def batch(self, items: Sequence[int], device: torch.device) -> Tensor:
        return ROWS[list(items)].to(device)


def error_of_kept_rows(model: nn.Module, batch: Tensor) -> StepOutput:
    kept = batch[batch[:, 0] > -1]  # unequal counts, and in some micro-batches none
    return StepOutput(functional.mse_loss(model(kept[:, :2]).squeeze(1), kept[:, 2]), len(kept))


def loader(batch_size: int, **options: Any) -> DataLoader[int, Tensor]:
    return DataLoader(InMemDataset(list(range(len(ROWS)))), Rows(), batch_size=batch_size, seed=1, **options)


def learner(scheduler: AnyLrScheduler[Any] | None = None, dtype: torch.dtype = torch.float64) -> Learner[Tensor]:
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1)).to(dtype)
    schedule = scheduler or CosineAnnealingConfig(initial_lr=0.1, num_iters=100).init()
    return Learner(model, AdamWConfig().init(), schedule, loss=error_of_kept_rows)


def training(**options: Any) -> TrainingConfig:
    return TrainingConfig(**{"epochs": 3, "batch_size": 2, "accumulation_steps": 4, "log_every_steps": 2, **options})


def quiet() -> PlainRenderer:
    return PlainRenderer(io.StringIO())


@pytest.mark.parametrize("steps_per_epoch", [None, 2])
def test_accumulated_micro_batches_are_the_big_batch_to_the_end_of_each_epoch(
    tmp_path: Path, steps_per_epoch: int | None
) -> None:
    """22 rows: two windows of 8, and a last one of 6 rows in 3 micro-batches."""
    small, big = learner(), learner()
    micro = steps_per_epoch and 4 * steps_per_epoch
    logs = [MetricsLog(tmp_path / name) for name in ("small.jsonl", "big.jsonl")]
    small.fit(
        loader(2, steps_per_epoch=micro),
        loader(8),
        training(),
        metrics_log=logs[0],
        renderer=quiet(),
    )
    big.fit(
        loader(8, steps_per_epoch=steps_per_epoch),
        loader(8),
        training(batch_size=8, accumulation_steps=1),
        metrics_log=logs[1],
        renderer=quiet(),
    )
    assert small.step == big.step == 3 * (steps_per_epoch or 3)
    for ours, theirs in zip(small.model.parameters(), big.model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)
    lines = [log.read() for log in logs]
    for name in ("step", "epoch", "split"):
        assert [line[name] for line in lines[0]] == [line[name] for line in lines[1]]
    assert [line.get("lr") for line in lines[0]] == [line.get("lr") for line in lines[1]]
    assert [line["loss"] for line in lines[0]] == pytest.approx([line["loss"] for line in lines[1]], rel=1e-12)


def test_the_schedule_advances_once_a_step() -> None:
    of = learner()
    of.fit(loader(2), loader(8), training(epochs=1), renderer=quiet())
    assert of.lr_scheduler.to_record() == {"current_iter": 2}


def test_one_step_takes_as_many_batches_as_it_is_given() -> None:
    small, big = learner(), learner()
    assert small.train_step(ROWS[:5], ROWS[5:8], ROWS[8:9]) == big.train_step(ROWS[:9]) == 0.1
    for ours, theirs in zip(small.model.parameters(), big.model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_a_loaded_checkpoint_goes_on_in_the_same_bits(tmp_path: Path, step: int) -> None:
    checkpointer = Checkpointer(tmp_path, keep=100)
    whole, resumed, train_loader = learner(), learner(), loader(2)
    options = training(checkpoint_every_steps=1)
    whole.fit(loader(2), loader(8), options, checkpointer=checkpointer, renderer=quiet())
    resumed.train_step(ROWS[:3])
    resumed.backward(ROWS[:3])  # what an interrupted step leaves
    resumed.load_checkpoint(next(it for it in checkpointer.all() if it.step == step), train_loader)
    resumed.fit(train_loader, loader(8), options, renderer=quiet())
    assert resumed.step == whole.step == 9
    for ours, theirs in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_a_batch_of_no_items_changes_nothing() -> None:
    of = learner()
    before = copy.deepcopy(of.model)
    of.train_step(ROWS[:0])
    assert all(torch.equal(a, b) for a, b in zip(of.model.parameters(), before.parameters(), strict=True))
    assert all(parameter.grad is None for parameter in of.model.parameters())


def test_a_single_micro_batch_is_a_step_without_accumulation() -> None:
    first, second = learner(dtype=torch.float64), learner(dtype=torch.float64)
    first.fit(loader(8), loader(8), training(accumulation_steps=1), renderer=quiet())
    second.fit(loader(8, steps_per_epoch=None), loader(8), training(accumulation_steps=100), renderer=quiet())
    assert (first.step, second.step) == (9, 3)
    third = learner()
    for _ in range(3):
        for batch in loader(8):
            third.train_step(batch)
    assert third.step == 9


def test_groups_train_with_rates_of_their_own_and_the_base_rate_is_logged(tmp_path: Path) -> None:
    config = ModuleLrSchedulerConfig(
        base=CosineAnnealingConfig(initial_lr=0.1, num_iters=10),
        groups=(LrGroupConfig(params=ParamGroup.from_predicate("bias"), scheduler=ConstantLrConfig(lr=0.0)),),
    )
    checkpointer = Checkpointer(tmp_path / "checkpoints", keep=100)
    log = MetricsLog(tmp_path / "metrics.jsonl")
    whole = learner(config.init())
    before = copy.deepcopy(whole.model)
    options = training(checkpoint_every_steps=1, log_every_steps=1)
    whole.fit(loader(2), loader(8), options, metrics_log=log, checkpointer=checkpointer, renderer=quiet())
    assert torch.equal(whole.model.get_parameter("0.bias"), before.get_parameter("0.bias"))
    assert not torch.equal(whole.model.get_parameter("0.weight"), before.get_parameter("0.weight"))
    rates = [line["lr"] for line in log.read() if line["split"] == "train"]
    assert rates == pytest.approx([0.05 * (1 + math.cos(math.pi * step / 10)) for step in range(9)])
    resumed, train_loader = learner(config.init()), loader(2)
    resumed.load_checkpoint(next(it for it in checkpointer.all() if it.step == 4), train_loader)
    resumed.fit(train_loader, loader(8), options, renderer=quiet())
    for ours, theirs in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_groups_that_match_nothing_are_refused_before_training() -> None:
    group = LrGroupConfig(params=ParamGroup.from_predicate("bais"), scheduler=ConstantLrConfig(lr=0.1))
    schedule = ModuleLrSchedulerConfig(base=ConstantLrConfig(lr=0.1), groups=(group,))
    with pytest.raises(ConfigError, match=r"groups\[0\] of the learning rates matches no parameter"):
        learner(schedule.init())


ACCUMULATED = ["training.epochs=2", "training.steps_per_epoch=6", "training.batch_size=2"]


def test_a_run_from_yaml_accumulates(tmp_path: Path) -> None:
    overrides = [*ACCUMULATED, "model.dropout=0.0", "training.checkpoint_every_steps=null"]
    lines = {}
    for name, more in (("small", ["training.accumulation_steps=2"]), ("big", ["training.batch_size=4"])):
        job = Job(load_config(tmp_path, *overrides, *more))
        assert job.total_steps == 12
        with closing(RunDir.create(tmp_path / name)) as run:
            job.run(run, quiet())
            assert ("training  12 steps of 2 x 2 items in 2 epochs" in job.describe(run)) == (name == "small")
        # Validation reads batches of another size.
        lines[name] = [line for line in metrics_of(tmp_path / name) if line["split"] == "train"]
    small, big = lines["small"], lines["big"]
    assert [(line["step"], line["lr"]) for line in small] == [(line["step"], line["lr"]) for line in big]
    assert [line["loss"] for line in small] == pytest.approx([line["loss"] for line in big], rel=1e-5)


def test_a_resumed_run_that_accumulates_ends_in_the_same_bits(tmp_path: Path) -> None:
    overrides = [*ACCUMULATED, "training.accumulation_steps=3", "training.keep_checkpoints=9"]
    with closing(RunDir.create(tmp_path / "whole")) as whole:
        Job(load_config(tmp_path, *overrides)).run(whole, quiet())
    with closing(RunDir.create(tmp_path / "parts")) as parts:
        interrupter = Interrupter()
        with pytest.raises(Interrupted):
            Job(load_config(tmp_path, *overrides)).run(parts, StopsAtStep5(interrupter), interrupter)
    with closing(RunDir.open(tmp_path / "parts")) as parts:
        with pytest.raises(CheckpointError, match=r"training\.accumulation_steps: 3 -> 2"):
            Job(load_config(tmp_path, *overrides, "training.accumulation_steps=2")).run(parts, quiet())
        Job(load_config(tmp_path, *overrides)).run(parts, quiet())
    found, expected = files_of(tmp_path / "parts"), files_of(tmp_path / "whole")
    assert found["model.safetensors"] == expected["model.safetensors"]


class StopsAtStep5(PlainRenderer):
    def __init__(self, interrupter: Interrupter) -> None:
        super().__init__(io.StringIO())
        self.interrupter = interrupter

    def advance(self, step: int) -> None:
        if step == 5:
            self.interrupter.stop()


@pytest.mark.parametrize(
    ("schedule", "path"),
    [
        ("{type: WarmupLr, warmup_steps: 60, scheduler: {type: ConstantLr, lr: 0.1}}", "lr_scheduler.warmup_steps"),
        (
            "{type: WarmupLr, warmup_steps: 3, scheduler: {type: CosineAnnealing, initial_lr: 0.1, warmup_steps: 90}}",
            "lr_scheduler.scheduler.warmup_steps",
        ),
        (
            "{type: ModuleLrScheduler, base: {type: CosineAnnealing, initial_lr: 0.1, warmup_steps: 60}}",
            "lr_scheduler.base.warmup_steps",
        ),
        (
            "{type: ModuleLrScheduler, base: {type: ConstantLr, lr: 0.1}, groups: [{params: {match: [{type: All}]},"
            " scheduler: {type: CosineAnnealing, initial_lr: 0.1, warmup_steps: 60}}]}",
            "lr_scheduler.groups.0.scheduler.warmup_steps",
        ),
    ],
)
def test_a_warm_up_that_takes_the_whole_run_is_refused_with_its_place(tmp_path: Path, schedule: str, path: str) -> None:
    with pytest.raises(ConfigError, match=f"{path}: expected less than the 60 steps of the run"):
        load_config(tmp_path, f"lr_scheduler={schedule}")


def test_a_warm_up_of_a_schedule_that_has_its_own_length_may_be_longer(tmp_path: Path) -> None:
    load_config(tmp_path, "lr_scheduler={type: NoamLr, factor: 1.0, warmup_steps: 4000}")


class OneOfTwo(SingleProcess):
    """A process that waits for the gradients of another one, which has no items either."""

    world_size = 2

    def reference(self, size: int) -> int:
        return max(size, 1)


@pytest.mark.parametrize("is_torchs", [False, True])
@pytest.mark.parametrize("options", [{}, {"precision": "float16"}, {"parallel": OneOfTwo()}])
def test_a_step_of_no_items_moves_no_weight(options: dict[str, Any], is_torchs: bool) -> None:
    """Also where there is momentum, and a scaler that would look for gradients."""
    model, kept = nn.Linear(2, 1), [True, False]
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9) if is_torchs else AdamWConfig().init()

    def loss(model: nn.Module, batch: Tensor) -> StepOutput:
        rows = batch[: 3 if kept.pop(0) else 0]
        return StepOutput(model(rows).square().mean(), len(rows))

    learner = Learner(model, optimizer, None if is_torchs else 0.1, loss=loss, **options)
    weights = []
    for _ in range(2):
        learner.train_step(torch.ones(3, 2))
        weights.append(model.weight.detach().clone())
    assert torch.equal(*weights)
    assert learner.step == 2
