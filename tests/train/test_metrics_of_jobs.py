"""Metrics and loggers of a job from YAML."""

import io
from contextlib import closing
from pathlib import Path

import pytest
import torch

from burnlike.errors import ConfigError
from burnlike.train import Interrupted, Interrupter, Job, PlainRenderer, RunDir
from burnlike.train.view.callback import Callback

from .samples import load_config, metrics_of

METRICS = "metrics=[{type: Perplexity}, {type: TopKAccuracy, k: 5}, {type: Accuracy, name: right}]"


def run(directory: Path, job: Job, stop: int | None = None) -> None:
    class Stop(Callback):
        def on_step_end(self, learner) -> None:
            if learner.step == stop:
                interrupter.stop()

    interrupter = Interrupter()
    opened = RunDir.open(directory) if directory.exists() else RunDir.create(directory)
    with closing(opened) as run_dir:
        try:
            job.run(run_dir, PlainRenderer(io.StringIO()), interrupter, [Stop()])
        except Interrupted:
            assert stop is not None


def test_lines_have_the_metrics_of_whole_epochs(tmp_path: Path) -> None:
    config = load_config(tmp_path, METRICS, "training.epochs=1", "loggers=[{type: TensorBoard}]")
    run(tmp_path / "run", Job(config))
    (valid,) = [line for line in metrics_of(tmp_path / "run") if line["split"] == "valid"]
    assert set(valid) == {"step", "epoch", "split", "loss", "perplexity", "top_k_accuracy", "right"}
    # exp of the mean loss, which the perplexity is by its definition
    assert valid["perplexity"] == pytest.approx(torch.tensor(valid["loss"]).exp().item(), rel=1e-5)
    assert 0 <= valid["right"] <= valid["top_k_accuracy"] <= 100
    assert list((tmp_path / "run" / "tensorboard").glob("events*"))


@pytest.mark.parametrize("stop", [5, 27])
def test_metrics_of_training_go_on_in_the_middle_of_an_epoch(tmp_path: Path, stop: int) -> None:
    config = load_config(tmp_path, METRICS, "training.train_metrics=true", "training.epochs=2")
    run(tmp_path / "whole", Job(config))
    run(tmp_path / "run", Job(config), stop=stop)
    run(tmp_path / "run", Job(config))
    lines = metrics_of(tmp_path / "run")
    assert lines == metrics_of(tmp_path / "whole")
    assert len([line for line in lines if line["split"] == "train" and "perplexity" in line]) == 2


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("metrics=[{type: Loss}]", "metrics.0: expected another metric: each line has the loss"),
        ("metrics=[{type: Accuracy}, {type: Accuracy}]", "metrics.1: expected another name than 'accuracy'"),
        ("training.keep_best={metric: acuracy}", "training.keep_best.metric: there is no metric 'acuracy'"),
        ("training.early_stopping={metric: x}", "training.early_stopping.metric: there is no metric 'x'"),
    ],
)
def test_mistakes_are_told_by_the_config(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(tmp_path, override)
