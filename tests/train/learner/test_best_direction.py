"""`keep_best` and `early_stopping` know which values of their metric are good."""

import io
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


def fit(directory: Path, metric: Given, training: TrainingConfig) -> Any:
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
    fit(tmp_path, Given([0.5, 0.9, 0.1, 0.4], higher), training)
    kept = [int(it.name.removeprefix("step-")) for it in (tmp_path / "checkpoints").glob("step-*")]
    assert sorted(kept) == [best, 4]


def test_a_learner_stops_by_what_the_metric_says(tmp_path: Path) -> None:
    training = TrainingConfig(epochs=4, early_stopping=EarlyStoppingConfig(metric="score", n_epochs=1))
    assert fit(tmp_path / "a", Given([0.1, 0.2, 0.3, 0.4], True), training).steps == 4
    assert fit(tmp_path / "b", Given([0.1, 0.2, 0.3, 0.4], False), training).steps == 2


def test_a_metric_that_does_not_say_needs_a_direction(tmp_path: Path) -> None:
    training = TrainingConfig(keep_best=BestMetricConfig(metric="score"))
    with pytest.raises(ConfigError, match=r"training\.keep_best\.direction: expected lowest or highest"):
        fit(tmp_path, Given([0.5], None), training)
    fit(tmp_path, Given([0.5], None), TrainingConfig(keep_best=BestMetricConfig(metric="score", direction="highest")))
