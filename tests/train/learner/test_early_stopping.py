"""Early stopping: Burn's own tests, and in a training."""

import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from burnlike.errors import ConfigError
from burnlike.train import EarlyStoppingConfig, Learner, MetricEarlyStoppingStrategy, PlainRenderer, TrainingConfig
from burnlike.train.learner.fit_loop import LearningResult

TESTS = Path(__file__).parents[2]
VECTORS = {
    entry["id"]: entry
    for entry in json.loads((TESTS / "vectors" / "metrics.json").read_text())
    if entry["metric"] == "MetricEarlyStoppingStrategy"
}


@pytest.mark.parametrize("name", VECTORS)
def test_stops_when_burn_does(name: str) -> None:
    entry = VECTORS[name]
    config = entry["config"]
    strategy = MetricEarlyStoppingStrategy(
        EarlyStoppingConfig(
            metric=config["metric"].lower(),
            direction=config["direction"].lower(),
            n_epochs=config["condition"]["NoImprovementSince"]["n_epochs"],
            warmup_epochs=config["warmup_epochs"] or 0,
        )
    )
    points = entry["inputs"]["loss_points_per_epoch"]
    found = [strategy.should_stop(epoch, sum(it) / len(it)) for epoch, it in enumerate(points, start=1)]
    assert found == entry["expected"]["outputs"]["should_stop_per_epoch"]


def test_highest_min_delta_nan_and_a_saved_state() -> None:
    config = EarlyStoppingConfig(metric="accuracy", direction="highest", n_epochs=2, min_delta=0.1)
    strategy = MetricEarlyStoppingStrategy(config)
    assert not strategy.should_stop(1, float("nan"))
    assert not strategy.should_stop(2, 0.5)
    assert not strategy.should_stop(3, 0.59)
    other = MetricEarlyStoppingStrategy(config)
    other.load_state_dict(json.loads(json.dumps(strategy.state_dict())))
    assert other.should_stop(4, 0.6)
    assert not strategy.should_stop(4, 0.61)


@pytest.mark.parametrize(
    ("values", "n_epochs", "stops"),
    [
        ([math.nan, 0.5, 0.4], 1, [False, False, False]),
        ([math.nan, math.nan, 0.9, 1.0, 1.0], 2, [False, False, False, False, True]),
        ([math.nan] * 4, 2, [False, False, True, True]),
        ([0.5, math.nan, math.nan], 2, [False, False, True]),
        ([math.inf, math.inf, 0.5], 1, [False, True, False]),
    ],
)
def test_epochs_without_a_number_count_from_the_first(values: list[float], n_epochs: int, stops: list[bool]) -> None:
    strategy = MetricEarlyStoppingStrategy(EarlyStoppingConfig(n_epochs=n_epochs))
    assert [strategy.should_stop(epoch, value) for epoch, value in enumerate(values, start=1)] == stops


def fit(directory: Path, losses: list[float], epochs: int | None = None, **stopping: Any) -> LearningResult:
    """One step an epoch; the validations have these losses."""
    model = nn.Linear(1, 1)
    given = iter(losses)

    def loss(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        return model(batch).square().mean() if model.training else torch.tensor(next(given))

    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.01), loss=loss)
    config = TrainingConfig(epochs=epochs or len(losses), early_stopping=EarlyStoppingConfig(**stopping))
    batches = [torch.ones(2, 1)]
    return learner.fit(batches, batches, config, directory=directory, renderer=PlainRenderer(io.StringIO()))


def test_a_training_stops_and_stays_stopped(tmp_path: Path) -> None:
    result = fit(tmp_path, [3.0, 2.0, 2.5, 2.5, 1.0], n_epochs=2)
    assert (result.steps, result.stopped_early) == (4, True)
    again = fit(tmp_path, [1.0], epochs=5, n_epochs=2)
    assert (again.steps, again.stopped_early) == (4, True)


def test_what_was_best_is_known_after_a_resume(tmp_path: Path) -> None:
    assert not fit(tmp_path, [1.0, 2.0], n_epochs=2).stopped_early
    result = fit(tmp_path, [1.5, 0.5], epochs=4, n_epochs=2)
    assert (result.steps, result.stopped_early) == (3, True)


def test_needs_a_validation() -> None:
    model = nn.Linear(1, 1)
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.01), loss=lambda m, x: m(x).mean())
    with pytest.raises(ConfigError, match=r"training.early_stopping: .* expected a valid_loader"):
        learner.fit([torch.ones(1, 1)], training=TrainingConfig(early_stopping=EarlyStoppingConfig()))
