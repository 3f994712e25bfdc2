"""Which checkpoints stay: Burn's strategies, by its own tests; when a training writes them."""

import io
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from burnlike.errors import CheckpointError, ConfigError
from burnlike.train import (
    BestMetricConfig,
    Callback,
    Checkpointer,
    ComposedCheckpointingStrategy,
    KeepLastNCheckpoints,
    Learner,
    MetricCheckpointingStrategy,
    PlainRenderer,
    TrainingConfig,
)
from burnlike.train.checkpoint.strategies import Delete, Save

TESTS = Path(__file__).parents[2]
VECTORS = {
    entry["id"]: entry
    for entry in json.loads((TESTS / "vectors" / "metrics.json").read_text())
    if entry["id"].startswith("Checkpointing/")
}


def strategy_of(text: str) -> KeepLastNCheckpoints:
    """What the vectors call KeepLastN(2)."""
    found = re.fullmatch(r"KeepLastN\((\d+)\)", text)
    assert found
    return KeepLastNCheckpoints(int(found[1]))


def make(entry: dict[str, Any]) -> Any:
    config = entry["config"]
    match entry["metric"]:
        case "KeepLastNCheckpoints":
            return KeepLastNCheckpoints(config["num_keep"])
        case "MetricCheckpointingStrategy":
            name = f"{config['split'].lower()}.{config['metric'].lower()}"
            return MetricCheckpointingStrategy(name, config["direction"].lower())
        case _:
            return ComposedCheckpointingStrategy([strategy_of(it) for it in config["strategies"]])


def shown(action: Save | Delete) -> str:
    return "Save" if isinstance(action, Save) else f"Delete({action.number})"


@pytest.mark.parametrize("name", VECTORS)
def test_actions_are_burns(name: str) -> None:
    entry = VECTORS[name]
    strategy = make(entry)
    points = entry["inputs"].get("loss_points_per_epoch")
    epochs = entry["inputs"].get("epochs") or range(1, len(points) + 1)
    values = [{"train.loss": sum(it) / len(it)} for it in points] if points else [{} for _ in epochs]
    actions = [[*map(shown, strategy.checkpointing(epoch, it))] for epoch, it in zip(epochs, values, strict=True)]
    assert actions == entry["expected"]["outputs"]["actions_per_epoch"]


def test_the_best_and_the_last_ones_stay() -> None:
    strategy = ComposedCheckpointingStrategy([KeepLastNCheckpoints(2), MetricCheckpointingStrategy("valid.loss")])
    kept = []
    for step, loss in enumerate([3.0, 1.0, 2.0, None, 1.5, float("nan"), 0.5], start=1):
        strategy.checkpointing(step, {} if loss is None else {"valid.loss": loss})
        kept.append(strategy.kept)
    assert kept == [[1], [1, 2], [2, 3], [2, 3, 4], [2, 4, 5], [2, 5, 6], [6, 7]]


@pytest.mark.parametrize("direction", ["lowest", "highest"])
def test_an_infinite_value_is_no_best_one(direction: Any) -> None:
    strategy = MetricCheckpointingStrategy("valid.loss", direction)
    worst = math.inf if direction == "lowest" else -math.inf
    assert [strategy.checkpointing(step, {"valid.loss": it}) for step, it in enumerate([worst, worst, 0.5, worst])] == [
        [],
        [],
        [Save()],
        [],
    ]


def test_highest_and_a_saved_state() -> None:
    strategy = MetricCheckpointingStrategy("valid.accuracy", "highest")
    assert strategy.checkpointing(1, {"valid.accuracy": 0.5}) == [Save()]
    other = MetricCheckpointingStrategy("valid.accuracy", "highest")
    other.load_state_dict(json.loads(json.dumps(strategy.state_dict())))
    assert other.checkpointing(2, {"valid.accuracy": 0.4}) == []
    assert other.checkpointing(3, {"valid.accuracy": 0.6}) == [Delete(1), Save()]


def test_of_equal_values_the_lowest_loss_is_the_best() -> None:
    strategy = MetricCheckpointingStrategy("valid.accuracy", "highest")
    nan = float("nan")
    found = []
    for step, (accuracy, loss) in enumerate(
        [(90, 0.5), (90, 0.4), (90, 0.6), (90, 0.4), (90, nan), (80, 0.1)], start=1
    ):
        strategy.checkpointing(step, {"valid.accuracy": accuracy, "valid.loss": loss})
        found += strategy.kept
    assert found == [1, 2, 2, 2, 2, 2]
    resumed = MetricCheckpointingStrategy("valid.accuracy", "highest")
    resumed.load_state_dict(json.loads(json.dumps(strategy.state_dict())))
    assert not resumed.is_better({"valid.accuracy": 90, "valid.loss": 0.4})
    assert resumed.is_better({"valid.accuracy": 90, "valid.loss": 0.3})


class Losses(Callback):
    """Gives a validation the losses of a list, and notes what is saved."""

    def __init__(self) -> None:
        self.saved: list[int] = []

    def on_checkpoint(self, learner: Learner[Any], checkpoint: Any) -> None:
        assert (checkpoint.path / "model.safetensors").exists()
        self.saved.append(checkpoint.step)


def fit(directory: Path, losses: list[float], **training: Any) -> list[int]:
    """Train one step an epoch, each validated with the next of the losses; returns the steps that were saved."""
    model = nn.Linear(1, 1)
    given = iter(losses)

    def loss(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        return model(batch).square().mean() if model.training else torch.tensor(next(given))

    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.01), loss=loss)
    noting = Losses()
    config = TrainingConfig(epochs=len(losses), **training)
    batches = [torch.ones(2, 1)]
    renderer = PlainRenderer(io.StringIO())
    learner.fit(batches, batches, config, directory=directory, renderer=renderer, callbacks=[noting])
    return noting.saved


def steps_in(directory: Path) -> list[int]:
    return [it.step for it in Checkpointer(directory / "checkpoints").all()]


def test_a_training_keeps_the_best_of_its_validations(tmp_path: Path) -> None:
    saved = fit(tmp_path, [3.0, 1.0, 2.0, 2.5, 2.6], keep_checkpoints=1, keep_best=BestMetricConfig())
    assert saved == [1, 2, 3, 4, 5]
    assert steps_in(tmp_path) == [2, 5]


def test_the_best_is_saved_where_none_is_due(tmp_path: Path) -> None:
    options = {"checkpoint_every_epochs": None, "keep_checkpoints": 1, "keep_best": BestMetricConfig()}
    assert fit(tmp_path, [3.0, 4.0, 1.0, 2.0, 2.0], **options) == [1, 3, 5]
    assert steps_in(tmp_path) == [3, 5]


def test_every_so_many_epochs_and_the_last(tmp_path: Path) -> None:
    assert fit(tmp_path, [1.0] * 5, checkpoint_every_epochs=2, keep_checkpoints=9) == [2, 4, 5]


def test_by_time(tmp_path: Path) -> None:
    options = {"checkpoint_every_epochs": None, "keep_checkpoints": 9}
    assert fit(tmp_path / "often", [1.0] * 4, checkpoint_every_minutes=1e-9, **options) == [1, 2, 3, 4]
    assert fit(tmp_path / "rarely", [1.0] * 4, checkpoint_every_minutes=60.0, **options) == [4]


@pytest.mark.parametrize("name", ["keep_best", "early_stopping"])
def test_a_metric_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=rf"training.{name}.metric: the validation has no 'acuracy', it has loss"):
        fit(tmp_path, [1.0], **{name: {"metric": "acuracy"}})


def test_a_background_save_that_fails_ends_the_training_with_its_reason(tmp_path: Path) -> None:
    class Blocks(Callback):
        def on_backward_end(self, learner: Learner[Any]) -> None:
            if learner.step == 2:
                checkpointer.wait()
                (tmp_path / "checkpoints").rename(tmp_path / "away")
                (tmp_path / "checkpoints").write_text("no directory")

    model = nn.Linear(1, 1)
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.01), loss=lambda m, x: m(x).mean())
    checkpointer = Checkpointer(tmp_path / "checkpoints")
    with pytest.raises(CheckpointError, match=r"step-00000003 can't be written"):
        learner.fit(
            [torch.ones(1, 1)],
            training=TrainingConfig(epochs=9),
            checkpointer=checkpointer,
            renderer=PlainRenderer(io.StringIO()),
            callbacks=[Blocks()],
        )
    assert sorted(it.name for it in (tmp_path / "away").iterdir()) == ["step-00000001", "step-00000002"]
