"""`burnlike verify-resume`: proves a resume, and finds what no checkpoint has."""

from pathlib import Path

import pytest

from burnlike.cli.main import main
from burnlike.train.job.verify import Leg, legs_of, shortened

from ..train.samples import load_config, write_config

NOISY = """
import torch
from burnlike.config import TaskConfig
from burnlike.train import Task, next_token_loss


class NoisyConfig(TaskConfig, tag="Noisy"):
    def init(self):
        return Noisy()


class Noisy(Task):
    def __init__(self):
        self.generator = torch.Generator().manual_seed(1)

    def train_step(self, model, batch):
        output = next_token_loss(model, batch)
        return output._replace(loss=output.loss * (1 + torch.rand(1, generator=self.generator).item()))
"""


@pytest.mark.slow
def test_a_job_is_proved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--set", "training.accumulation_steps=2", "--set", "training.ema={}", "--keep", str(tmp_path / "kept")]
    assert main(["verify-resume", str(write_config(tmp_path)), "--steps", "8", *options]) == 0
    out = capsys.readouterr().out
    assert "8 steps in two epochs, in one go" in out
    assert "stopped after step 2 and killed in step 5" in out
    assert "equal: weights" in out
    assert sorted(it.name for it in (tmp_path / "kept").iterdir()) == ["resumed", "whole"]


@pytest.mark.weekly
def test_a_generator_of_the_tasks_own_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    config = write_config(tmp_path)
    arguments = ["verify-resume", str(config), "--steps", "4", "--import", "noisy", "--set", "task={type: Noisy}"]
    assert main(arguments) == 1
    out = capsys.readouterr().out
    assert "different:\n  model: " in out
    assert "random numbers of a generator of its own" in out


def test_the_proof_has_the_end_of_an_epoch_and_a_kill_in_it(tmp_path: Path) -> None:
    config = shortened(load_config(tmp_path, "lr_scheduler.warmup_steps=40"), 12)
    assert config.training.steps_per_epoch == 6
    assert config.training.epochs * 6 == 60
    assert legs_of(config) == [Leg(3), Leg(8, is_killed=True), Leg(12)]
    assert legs_of(shortened(config, 4)) == [Leg(1), Leg(3, is_killed=True), Leg(4)]


def test_wrong_arguments_are_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["verify-resume", str(write_config(tmp_path)), "--steps", "3"])
    assert "at least 4 steps" in capsys.readouterr().err
    config = str(write_config(tmp_path))
    assert main(["verify-resume", config, "--set", "distributed.strategy=fsdp2"]) == 2
    assert "expected distributed.strategy none and no launcher, got fsdp2 in one of 1" in capsys.readouterr().err
