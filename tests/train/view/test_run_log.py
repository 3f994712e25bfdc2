"""RunLog: environment.json and log.txt of a run."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from burnlike.errors import TrainingError
from burnlike.train import Callback, Interrupted, Interrupter, Learner, TrainingConfig, read_run


def fit(path: Path | None, *callbacks: Callback, epochs: int = 2, interrupter: Any = None) -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    learner = Learner(
        model, torch.optim.SGD(model.parameters(), lr=0.01), loss=lambda model, batch: model(batch[0]).square().mean()
    )
    data = torch.utils.data.TensorDataset(torch.rand(16, 3, generator=torch.Generator().manual_seed(1)))
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    training = TrainingConfig(epochs=epochs, log_every_steps=1, background_checkpoints=False)
    learner.fit(loader, loader, training, directory=path, callbacks=[*callbacks], interrupter=interrupter)


def log_of(path: Path) -> list[str]:
    return [line.partition(" ")[2] for line in (path / "log.txt").read_text().splitlines()]


def test_a_run_that_ends_as_planned(tmp_path: Path) -> None:
    fit(tmp_path / "run")
    first, *lines, last = log_of(tmp_path / "run")
    assert (first, last) == ("starting at step 0 of 8", "done")
    assert [line.split()[1] for line in lines if line.startswith("step")] == [
        f"{step}/8" for step in (1, 2, 3, 4, 4, 5, 6, 7, 8, 8)
    ]
    assert "checkpoint step-00000008" in lines
    assert json.loads((tmp_path / "run" / "environment.json").read_text())["torch"] == torch.__version__
    assert read_run(tmp_path / "run").state == "done"


class Stop(Callback):
    def __init__(self, interrupter: Interrupter) -> None:
        self.interrupter = interrupter

    def on_step_end(self, learner: Learner[Any]) -> None:
        if learner.step == 3:
            self.interrupter.stop()


def test_a_run_that_is_stopped_and_goes_on(tmp_path: Path) -> None:
    interrupter = Interrupter()
    with pytest.raises(Interrupted):
        fit(tmp_path / "run", Stop(interrupter), interrupter=interrupter)
    assert log_of(tmp_path / "run")[-1] == "stopped: SIGINT"
    assert read_run(tmp_path / "run")[2:4] == ("stopped", "SIGINT")
    environment = (tmp_path / "run" / "environment.json").read_text()
    fit(tmp_path / "run")
    assert "resuming at step 3 of 8" in log_of(tmp_path / "run")
    assert read_run(tmp_path / "run").state == "done"
    assert (tmp_path / "run" / "environment.json").read_text() == environment


class Fail(Callback):
    def on_step_end(self, learner: Learner[Any]) -> None:
        raise TrainingError("the loss\nbecame nan")


def test_a_run_that_fails(tmp_path: Path) -> None:
    with pytest.raises(TrainingError):
        fit(tmp_path / "run", Fail())
    run = read_run(tmp_path / "run")
    assert (run.state, run.reason) == ("failed", "TrainingError: the loss")


def test_without_a_directory_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fit(None)
    assert list(tmp_path.iterdir()) == []


class Leak(Callback):
    def on_step_end(self, learner: Learner[Any]) -> None:
        raise TrainingError("s3cr3t failed")


def test_values_of_environment_variables_stay_out_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "s3cr3t")
    fit(tmp_path / "run", epochs=1)
    (tmp_path / "run" / "config.yaml").write_text("a: ${env:KEY}\n")
    with pytest.raises(TrainingError):
        fit(tmp_path / "run", Leak())
    assert log_of(tmp_path / "run")[-1] == "failed: TrainingError: ${env:KEY} failed"
