"""Learner: its loops over any model that has a loss, and micro-batches that train as big batches do."""

import copy
import io
import json
import math
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from burnlike.data import DataLoader, InMemDataset
from burnlike.errors import CheckpointError, ConfigError, TrainingError
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
    LanguageModel,
    LanguageModelConfig,
    Learner,
    MetricsLog,
    PlainRenderer,
    RunDir,
    StepOutput,
    TrainingConfig,
    next_token_loss,
)
from burnlike.train.parallel.single_process import SingleProcess

from .samples import files_of, load_config, metrics_of


class Pairs:
    """Points of y = 3 x - 1."""

    def batch(self, items: list[float], device: torch.device) -> tuple[Tensor, Tensor]:
        x = torch.tensor(items, device=device).unsqueeze(1)
        return x, 3 * x - 1


def squared_error(model: nn.Module, batch: tuple[Tensor, Tensor]) -> StepOutput:
    x, y = batch
    return StepOutput(functional.mse_loss(model(x), y), len(x))


def loader(n_items: int = 12, batch_size: int = 4, **options) -> DataLoader:
    points = InMemDataset([i / n_items for i in range(n_items)])
    return DataLoader(points, Pairs(), batch_size=batch_size, seed=1, **options)


def learner(model: nn.Module | None = None, lr: float = 0.1, **options) -> Learner:
    torch.manual_seed(5)
    scheduler = CosineAnnealingConfig(initial_lr=lr, num_iters=1000).init()
    options = {"loss": squared_error, **options}
    return Learner(model or nn.Linear(1, 1), AdamWConfig().init(), scheduler, **options)


def quiet() -> PlainRenderer:
    return PlainRenderer(io.StringIO())


def training(**options) -> TrainingConfig:
    return TrainingConfig(**{"epochs": 2, "batch_size": 4, "log_every_steps": 2, **options})


def test_a_line_is_learned_and_its_metrics_are_kept(tmp_path: Path) -> None:
    metrics = MetricsLog(tmp_path / "metrics.jsonl")
    of = learner()
    result = of.fit(loader(), loader(), training(epochs=60), metrics_log=metrics, renderer=quiet())
    assert (result.steps, of.step) == (180, 180)
    assert result.valid_loss is not None
    assert result.valid_loss < 1e-3
    assert of.model.weight.item() == pytest.approx(3, abs=0.1)
    lines = metrics.read()
    assert [(line["step"], line["epoch"], line["split"]) for line in lines[:6]] == [
        (2, 0, "train"),
        (3, 0, "train"),
        (3, 0, "valid"),
        (4, 1, "train"),
        (6, 1, "train"),
        (6, 1, "valid"),
    ]
    assert set(lines[0]) == {"step", "epoch", "split", "loss", "lr", "items_per_s", "time"}
    assert set(lines[2]) == {"step", "epoch", "split", "loss", "time"}
    valid = [line["loss"] for line in lines if line["split"] == "valid"]
    assert result.valid_loss == valid[-1]
    assert result.best_valid_loss == min(valid)
    assert result.train_loss == lines[-2]["loss"]


def test_a_training_line_is_the_mean_of_the_steps_since_the_last(tmp_path: Path) -> None:
    losses = []

    def noting(model: nn.Module, batch: tuple[Tensor, Tensor]) -> StepOutput:
        loss = squared_error(model, batch)
        if model.training:
            losses.append((loss.loss.item(), loss.size))
        return loss

    metrics = MetricsLog(tmp_path / "metrics.jsonl")
    of = learner(loss=noting)
    of.fit(loader(10), loader(), training(epochs=1), metrics_log=metrics, renderer=quiet())  # batches of 4, 4 and 2
    assert [size for _, size in losses] == [4, 4, 2]
    first, second, _ = metrics.read()
    assert first["loss"] == pytest.approx((losses[0][0] + losses[1][0]) / 2)
    assert second["loss"] == pytest.approx(losses[2][0])


def test_validation_weighs_every_item_equally_and_changes_nothing() -> None:
    of = learner(nn.Sequential(nn.Linear(1, 1), nn.Dropout(0.5)))
    of.model.train()
    before = [parameter.clone() for parameter in of.model.parameters()]
    state = torch.get_rng_state()
    found = of.validate(loader(10, batch_size=4))
    whole = of.model.eval()
    x, y = Pairs().batch([i / 10 for i in range(10)], torch.device("cpu"))
    assert found == pytest.approx(functional.mse_loss(whole(x), y).item(), rel=1e-6)
    assert all(torch.equal(a, b) for a, b in zip(before, of.model.parameters(), strict=True))
    assert all(parameter.grad is None for parameter in of.model.parameters())
    assert torch.equal(torch.get_rng_state(), state)


def test_the_mode_is_training_while_training_and_eval_while_validating() -> None:
    modes = []

    class Noting(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            modes.append(self.training)
            return super().forward(input)

    learner(Noting(1, 1)).fit(loader(), loader(), training(epochs=2), renderer=quiet())
    assert modes == [True, True, True, False, False, False] * 2


def test_checkpoints_come_at_steps_and_at_the_end_of_epochs(tmp_path: Path) -> None:
    checkpointer = Checkpointer(tmp_path, keep=100)
    of = learner()
    result = of.fit(loader(), loader(), training(checkpoint_every_steps=2), checkpointer=checkpointer, renderer=quiet())
    assert [checkpoint.step for checkpoint in checkpointer.all()] == [2, 3, 4, 6]
    assert result.checkpoint == checkpointer.latest()


@pytest.mark.parametrize("step", [2, 3, 4])
def test_a_loaded_checkpoint_goes_on_in_the_same_bits(tmp_path: Path, step: int) -> None:
    def model() -> nn.Module:
        return nn.Sequential(nn.Linear(1, 8), nn.Dropout(0.3), nn.Linear(8, 1))

    checkpointer = Checkpointer(tmp_path / "checkpoints", keep=100)
    whole, whole_log = learner(model()), MetricsLog(tmp_path / "whole.jsonl")
    options = training(checkpoint_every_steps=1, log_every_steps=4)
    whole.fit(loader(), loader(), options, checkpointer=checkpointer, metrics_log=whole_log, renderer=quiet())
    resumed, train_loader, log = learner(model()), loader(), MetricsLog(tmp_path / "resumed.jsonl")
    torch.manual_seed(99)
    resumed.load_checkpoint(next(it for it in checkpointer.all() if it.step == step), train_loader)
    resumed.fit(train_loader, loader(), options, metrics_log=log, renderer=quiet())
    assert resumed.step == 6
    for a, b in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(a, b)
    states = [dict(of.optimizer.to_record().tensors) for of in (whole, resumed)]
    assert [tensor.tolist() for tensor in states[0].values()] == [tensor.tolist() for tensor in states[1].values()]
    losses = [[line["loss"] for line in it.read() if line["step"] > step] for it in (whole_log, log)]
    assert losses[0] == losses[1]


def test_another_runs_checkpoints_are_refused_before_the_first_step(tmp_path: Path) -> None:
    checkpointer = Checkpointer(tmp_path, keep=100)
    learner().fit(loader(), loader(), training(), checkpointer=checkpointer, renderer=quiet())
    for other in (Checkpointer(tmp_path, keep=100), checkpointer):
        of = learner()
        with pytest.raises(CheckpointError, match=r"nothing was changed.*another directory"):
            of.fit(loader(), loader(), training(), checkpointer=other, renderer=quiet())
        assert of.step == 0
        assert [checkpoint.step for checkpoint in checkpointer.all()] == [3, 6]


def test_a_loss_that_is_not_finite_stops_and_no_checkpoint_is_written(tmp_path: Path) -> None:
    def breaks_at_5(model: nn.Module, batch: tuple[Tensor, Tensor]) -> StepOutput:
        loss = squared_error(model, batch)
        return StepOutput(loss.loss * math.nan, loss.size) if of.step == 4 else loss

    checkpointer = Checkpointer(tmp_path, keep=100)
    of = learner(loss=breaks_at_5)
    options = training(checkpoint_every_steps=1, log_every_steps=100)
    with pytest.raises(TrainingError, match=r"the loss became nan by step 5; .*lower learning rate"):
        of.fit(loader(), loader(), options, checkpointer=checkpointer, renderer=quiet())
    assert [checkpoint.step for checkpoint in checkpointer.all()] == [1, 2, 3, 4]


def test_parameters_that_are_not_finite_are_never_saved(tmp_path: Path) -> None:
    of = learner()
    with torch.no_grad():
        of.model.bias.fill_(math.inf)
    checkpointer = Checkpointer(tmp_path)
    options = training(checkpoint_every_steps=1, log_every_steps=100)
    with pytest.raises(TrainingError, match=r"the (loss became|parameter 'bias')"):
        of.fit(loader(), loader(), options, checkpointer=checkpointer, renderer=quiet())
    assert checkpointer.all() == []


def test_a_stop_is_obeyed_after_the_step_with_a_checkpoint(tmp_path: Path) -> None:
    class StopsAt(PlainRenderer):
        def advance(self, step: int) -> None:
            if step == 4:
                interrupter.stop()

    interrupter, checkpointer = Interrupter(), Checkpointer(tmp_path, keep=1)
    of = learner()
    with pytest.raises(Interrupted, match="SIGINT"):
        of.fit(
            *(loader(), loader(), training()),
            checkpointer=checkpointer,
            interrupter=interrupter,
            renderer=StopsAt(io.StringIO()),
        )
    assert [checkpoint.step for checkpoint in checkpointer.all()] == [4]


def test_next_token_loss_is_the_cross_entropy_of_the_shifted_tokens() -> None:
    table = nn.Embedding(10, 10, dtype=torch.float64)
    batch = torch.randint(0, 10, (3, 5))
    loss = next_token_loss(table, batch)
    assert loss.size == 12
    expected = 0.0
    for row in batch.tolist():
        for token, following in pairwise(row):
            expected -= table.weight[token].log_softmax(-1)[following].item() / 12
    assert loss.loss.item() == pytest.approx(expected)


def test_labels_of_a_language_model_are_smoothed_in_training_alone() -> None:
    table = nn.Embedding(10, 10, dtype=torch.float64)
    batch, task = torch.randint(0, 10, (3, 5)), LanguageModel(LanguageModelConfig(label_smoothing=0.2))
    logs = table.weight[batch[:, :-1]].log_softmax(-1)
    right = -logs.gather(-1, batch[:, 1:, None]).mean()
    assert task.valid_step(table, batch).loss.item() == pytest.approx(right.item())
    smoothed = 0.8 * right - 0.2 * logs.mean()  # of all tokens, Szegedy et al. 2016, section 7
    assert task.train_step(table, batch).loss.item() == pytest.approx(smoothed.item())


def test_a_models_own_loss_is_used() -> None:
    class Own(nn.Module):
        def loss(self, batch: Tensor) -> StepOutput:
            return StepOutput(batch.sum(), 7)

    assert LanguageModel().train_step(Own(), torch.ones(3)) == StepOutput(torch.tensor(3.0), 7)
    with pytest.raises(ConfigError, match=r"task\.label_smoothing: Own has a loss of its own; leave it out"):
        LanguageModel(LanguageModelConfig(label_smoothing=0.1)).train_step(Own(), torch.ones(3))
    table, batch = nn.Embedding(10, 10), torch.randint(0, 10, (3, 5))  # has none of its own
    found, expected = LanguageModel().train_step(table, batch), next_token_loss(table, batch)
    assert (found.loss.item(), found.size) == (expected.loss.item(), 12)


def counted(model: nn.Module, batch: tuple[Tensor, Tensor], counts: bool) -> StepOutput:
    """The masked mean of a batch of which all or nothing counts, 0 / 0."""
    x, y = batch
    mask = torch.full_like(y, float(counts))
    return StepOutput(((model(x) - y).square() * mask).sum() / mask.sum(), len(x) * counts)


def test_a_line_in_which_nothing_counts_ends_no_training(tmp_path: Path) -> None:
    of = learner(loss=lambda model, batch: counted(model, batch, of.step not in (0, 2, 3)))
    log, stream = MetricsLog(tmp_path / "metrics.jsonl"), io.StringIO()
    renderer, checkpointer = PlainRenderer(stream, interval_s=0), Checkpointer(tmp_path / "checkpoints")
    of.fit(
        loader(), None, training(checkpoint_every_steps=1, log_every_steps=1),
        metrics_log=log, renderer=renderer, checkpointer=checkpointer,
    )  # fmt: skip
    losses = [json.loads(line)["loss"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [it is None for it in losses] == [True, False, True, True, False, False]
    assert of.last["train"] == losses[-1]
    assert "step 3: no target counted since the line before, so there is no loss to show" in stream.getvalue()
    assert [it.step for it in checkpointer.all()][-1] == 6


def test_a_training_in_which_nothing_counts_says_so() -> None:
    of = learner(loss=lambda model, batch: counted(model, batch, False))
    with pytest.raises(TrainingError, match=r"^no target counted in any of the 6 steps.* all are ignored \(-100"):
        of.fit(loader(), loader(), training(), renderer=quiet())


def test_the_best_validation_is_none_in_which_nothing_counts() -> None:
    validations = iter([False, True])

    class Task:
        def train_step(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> StepOutput:
            return squared_error(model, batch)

        def valid_step(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> StepOutput:
            return counted(model, batch, next(validations))

    of = learner(loss=None, task=Task())
    result = of.fit(loader(), loader(batch_size=12), training(), renderer=quiet())
    assert result.best_valid_loss == result.valid_loss
    assert math.isfinite(result.best_valid_loss)


ROWS = torch.randn(22, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


class Rows:
    """Rows of three numbers."""

    def batch(self, items: Sequence[int], device: torch.device) -> Tensor:
        return ROWS[list(items)].to(device)


def error_of_kept_rows(model: nn.Module, batch: Tensor) -> StepOutput:
    kept = batch[batch[:, 0] > -1]  # unequal counts, and in some micro-batches none
    return StepOutput(functional.mse_loss(model(kept[:, :2]).squeeze(1), kept[:, 2]), len(kept))


def loader_of_rows(batch_size: int, **options: Any) -> DataLoader[int, Tensor]:
    return DataLoader(InMemDataset(list(range(len(ROWS)))), Rows(), batch_size=batch_size, seed=1, **options)


def learner_of_rows(
    scheduler: AnyLrScheduler[Any] | None = None, dtype: torch.dtype = torch.float64
) -> Learner[Tensor]:
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1)).to(dtype)
    schedule = scheduler or CosineAnnealingConfig(initial_lr=0.1, num_iters=100).init()
    return Learner(model, AdamWConfig().init(), schedule, loss=error_of_kept_rows)


def training_of_rows(**options: Any) -> TrainingConfig:
    return TrainingConfig(**{"epochs": 3, "batch_size": 2, "accumulation_steps": 4, "log_every_steps": 2, **options})


@pytest.mark.parametrize("steps_per_epoch", [None, 2])
def test_accumulated_micro_batches_are_the_big_batch_to_the_end_of_each_epoch(
    tmp_path: Path, steps_per_epoch: int | None
) -> None:
    """22 rows: two windows of 8, and a last one of 6 rows in 3 micro-batches."""
    small, big = learner_of_rows(), learner_of_rows()
    micro = steps_per_epoch and 4 * steps_per_epoch
    logs = [MetricsLog(tmp_path / name) for name in ("small.jsonl", "big.jsonl")]
    small.fit(
        loader_of_rows(2, steps_per_epoch=micro),
        loader_of_rows(8),
        training_of_rows(),
        metrics_log=logs[0],
        renderer=quiet(),
    )
    big.fit(
        loader_of_rows(8, steps_per_epoch=steps_per_epoch),
        loader_of_rows(8),
        training_of_rows(batch_size=8, accumulation_steps=1),
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
    of = learner_of_rows()
    of.fit(loader_of_rows(2), loader_of_rows(8), training_of_rows(epochs=1), renderer=quiet())
    assert of.lr_scheduler.to_record() == {"current_iter": 2}


def test_one_step_takes_as_many_batches_as_it_is_given() -> None:
    small, big = learner_of_rows(), learner_of_rows()
    assert small.train_step(ROWS[:5], ROWS[5:8], ROWS[8:9]) == big.train_step(ROWS[:9]) == 0.1
    for ours, theirs in zip(small.model.parameters(), big.model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_accumulation_goes_on_from_a_checkpoint_in_the_same_bits(tmp_path: Path, step: int) -> None:
    checkpointer = Checkpointer(tmp_path, keep=100)
    whole, resumed, train_loader = learner_of_rows(), learner_of_rows(), loader_of_rows(2)
    options = training_of_rows(checkpoint_every_steps=1)
    whole.fit(loader_of_rows(2), loader_of_rows(8), options, checkpointer=checkpointer, renderer=quiet())
    resumed.train_step(ROWS[:3])
    resumed.backward(ROWS[:3])  # what an interrupted step leaves
    resumed.load_checkpoint(next(it for it in checkpointer.all() if it.step == step), train_loader)
    resumed.fit(train_loader, loader_of_rows(8), options, renderer=quiet())
    assert resumed.step == whole.step == 9
    for ours, theirs in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_a_batch_of_no_items_changes_nothing() -> None:
    of = learner_of_rows()
    before = copy.deepcopy(of.model)
    of.train_step(ROWS[:0])
    assert all(torch.equal(a, b) for a, b in zip(of.model.parameters(), before.parameters(), strict=True))
    assert all(parameter.grad is None for parameter in of.model.parameters())


def test_a_single_micro_batch_is_a_step_without_accumulation() -> None:
    first, second = learner_of_rows(dtype=torch.float64), learner_of_rows(dtype=torch.float64)
    first.fit(loader_of_rows(8), loader_of_rows(8), training_of_rows(accumulation_steps=1), renderer=quiet())
    second.fit(
        loader_of_rows(8, steps_per_epoch=None),
        loader_of_rows(8),
        training_of_rows(accumulation_steps=100),
        renderer=quiet(),
    )
    assert (first.step, second.step) == (9, 3)
    third = learner_of_rows()
    for _ in range(3):
        for batch in loader_of_rows(8):
            third.train_step(batch)
    assert third.step == 9


def test_groups_train_with_rates_of_their_own_and_the_base_rate_is_logged(tmp_path: Path) -> None:
    config = ModuleLrSchedulerConfig(
        base=CosineAnnealingConfig(initial_lr=0.1, num_iters=10),
        groups=(LrGroupConfig(params=ParamGroup.from_predicate("bias"), scheduler=ConstantLrConfig(lr=0.0)),),
    )
    checkpointer = Checkpointer(tmp_path / "checkpoints", keep=100)
    log = MetricsLog(tmp_path / "metrics.jsonl")
    whole = learner_of_rows(config.init())
    before = copy.deepcopy(whole.model)
    options = training_of_rows(checkpoint_every_steps=1, log_every_steps=1)
    whole.fit(
        loader_of_rows(2), loader_of_rows(8), options, metrics_log=log, checkpointer=checkpointer, renderer=quiet()
    )
    assert torch.equal(whole.model.get_parameter("0.bias"), before.get_parameter("0.bias"))
    assert not torch.equal(whole.model.get_parameter("0.weight"), before.get_parameter("0.weight"))
    rates = [line["lr"] for line in log.read() if line["split"] == "train"]
    assert rates == pytest.approx([0.05 * (1 + math.cos(math.pi * step / 10)) for step in range(9)])
    resumed, train_loader = learner_of_rows(config.init()), loader_of_rows(2)
    resumed.load_checkpoint(next(it for it in checkpointer.all() if it.step == 4), train_loader)
    resumed.fit(train_loader, loader_of_rows(8), options, renderer=quiet())
    for ours, theirs in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_groups_that_match_nothing_are_refused_before_training() -> None:
    group = LrGroupConfig(params=ParamGroup.from_predicate("bais"), scheduler=ConstantLrConfig(lr=0.1))
    schedule = ModuleLrSchedulerConfig(base=ConstantLrConfig(lr=0.1), groups=(group,))
    with pytest.raises(ConfigError, match=r"groups\[0\] of the learning rates matches no parameter"):
        learner_of_rows(schedule.init())


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
