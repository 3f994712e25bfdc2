"""Learner: its loops over any model that has a loss."""

import io
import json
import math
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from burnlike.data import DataLoader, InMemDataset
from burnlike.errors import CheckpointError, TrainingError
from burnlike.optim import AdamWConfig, CosineAnnealingConfig
from burnlike.train import (
    Checkpointer,
    Interrupted,
    Interrupter,
    LanguageModel,
    Learner,
    MetricsLog,
    PlainRenderer,
    StepOutput,
    TrainingConfig,
    next_token_loss,
)


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


def test_a_models_own_loss_is_used() -> None:
    class Own(nn.Module):
        def loss(self, batch: Tensor) -> StepOutput:
            return StepOutput(batch.sum(), 7)

    assert LanguageModel().train_step(Own(), torch.ones(3)) == StepOutput(torch.tensor(3.0), 7)
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
