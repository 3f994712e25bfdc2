"""Early stopping and keep_best: Burn's own tests, in a training, and which values of a metric are good."""

import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from burnlike.config import MetricConfig, registry
from burnlike.errors import ArgumentError, ConfigError
from burnlike.train import (
    BestMetricConfig,
    EarlyStoppingConfig,
    Learner,
    MetricCheckpointingStrategy,
    MetricEarlyStoppingStrategy,
    PlainRenderer,
    TrainConfig,
    TrainingConfig,
)
from burnlike.train.job.run_config import check_resumable
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


registry.load_built_in()
METRICS = {tag: cls for tag, cls in registry.imported(MetricConfig).items() if cls.__module__.startswith("burnlike.")}
DIRECTED = [tag for tag, cls in METRICS.items() if tag not in ("ConfusionStats", "Loss", "LearningRate")]


def config_of(metric: str, best: dict[str, Any], field: str = "keep_best") -> TrainConfig:
    return TrainConfig.from_dict(
        {
            "data": {"type": "Digits"},
            "model": {"type": "Linear", "d_input": 64, "d_output": 10},
            "task": {"type": "Classification"},
            "metrics": [{"type": metric, "name": "chosen"}],
            "optimizer": {"type": "AdamW"},
            "lr_scheduler": {"type": "ConstantLr", "lr": 1e-3},
            "training": {field: {"metric": "chosen", **best}},
        }
    )


@pytest.mark.filterwarnings("ignore:Cuda.*there is no CUDA device:UserWarning", "ignore:CudaUse:UserWarning")
@pytest.mark.parametrize("tag", DIRECTED)
def test_every_config_says_what_its_metric_says(tag: str) -> None:
    cls: Any = METRICS[tag]
    assert cls.higher_is_better is not None
    assert cls().init().higher_is_better is cls.higher_is_better


@pytest.mark.parametrize("field", ["keep_best", "early_stopping"])
@pytest.mark.parametrize("tag", DIRECTED)
def test_a_contradiction_is_refused(tag: str, field: str) -> None:
    right, wrong = ("highest", "lowest") if METRICS[tag].higher_is_better else ("lowest", "highest")
    implied, said = config_of(tag, {}, field), config_of(tag, {"direction": right}, field)
    assert check_resumable(said, implied, "run") == []
    with pytest.raises(ConfigError, match=rf"training.{field}.direction: expected {right}, .* got {wrong}"):
        config_of(tag, {"direction": wrong}, field)


@pytest.mark.parametrize("field", ["keep_best", "early_stopping"])
def test_a_job_says_the_direction_that_a_config_of_a_metric_does_not_say(field: str) -> None:
    """Only the metric might say it, and what reads a run does not make its metrics."""
    with pytest.raises(ConfigError, match=rf"training\.{field}\.direction: expected lowest or highest"):
        config_of("ConfusionStats", {}, field)
    assert (
        getattr(config_of("ConfusionStats", {"direction": "highest"}, field).directed(), field).direction == "highest"
    )


def test_the_loss_is_best_at_its_lowest() -> None:
    assert BestMetricConfig().directed().direction == "lowest"
    with pytest.raises(ConfigError, match="direction: expected lowest"):
        EarlyStoppingConfig(direction="highest")
    assert MetricCheckpointingStrategy("valid.loss").direction == "lowest"
    with pytest.raises(ArgumentError, match=r"direction='lowest' or 'highest' for valid\.accuracy"):
        MetricCheckpointingStrategy("valid.accuracy")
    with pytest.raises(ConfigError, match="expected lowest or highest"):
        MetricEarlyStoppingStrategy(EarlyStoppingConfig(metric="accuracy"))


def test_a_name_of_another_column_is_refused() -> None:
    values = config_of("Accuracy", {}).to_dict()
    values["metrics"][0]["name"] = "loss"
    values["training"] = {}
    with pytest.raises(ConfigError, match=r"metrics\.0\.name: 'loss' stands in each line"):
        TrainConfig.from_dict(values)


class Given:
    """A metric of a user: the values of the epochs."""

    compares = False

    def __init__(self, values: list[float], higher_is_better: bool | None) -> None:
        self.values = iter(values)
        self.higher_is_better = higher_is_better

    def update(self, *_: Any) -> None: ...

    def reset(self) -> None: ...

    def compute(self) -> float:
        return next(self.values)


def fit_with_metric(directory: Path, metric: Given, training: TrainingConfig) -> Any:
    model = nn.Linear(1, 1)
    learner = Learner(
        model,
        torch.optim.SGD(model.parameters(), lr=0.01),
        loss=lambda model, batch: model(batch).square().mean(),
        metrics={"score": metric},
    )
    batches = [torch.ones(2, 1)]
    return learner.fit(batches, batches, training, directory=directory, renderer=PlainRenderer(io.StringIO()))


@pytest.mark.parametrize(("higher", "best"), [(True, 2), (False, 3)])
def test_a_learner_keeps_the_best_by_what_the_metric_says(tmp_path: Path, higher: bool, best: int) -> None:
    training = TrainingConfig(epochs=4, keep_checkpoints=1, keep_best=BestMetricConfig(metric="score"))
    fit_with_metric(tmp_path, Given([0.5, 0.9, 0.1, 0.4], higher), training)
    kept = [int(it.name.removeprefix("step-")) for it in (tmp_path / "checkpoints").glob("step-*")]
    assert sorted(kept) == [best, 4]


def test_a_learner_stops_by_what_the_metric_says(tmp_path: Path) -> None:
    training = TrainingConfig(epochs=4, early_stopping=EarlyStoppingConfig(metric="score", n_epochs=1))
    assert fit_with_metric(tmp_path / "a", Given([0.1, 0.2, 0.3, 0.4], True), training).steps == 4
    assert fit_with_metric(tmp_path / "b", Given([0.1, 0.2, 0.3, 0.4], False), training).steps == 2


def test_a_metric_that_does_not_say_needs_a_direction(tmp_path: Path) -> None:
    training = TrainingConfig(keep_best=BestMetricConfig(metric="score"))
    with pytest.raises(ConfigError, match=r"training\.keep_best\.direction: expected lowest or highest"):
        fit_with_metric(tmp_path, Given([0.5], None), training)
    fit_with_metric(
        tmp_path, Given([0.5], None), TrainingConfig(keep_best=BestMetricConfig(metric="score", direction="highest"))
    )
