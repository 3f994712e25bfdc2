"""Runs of a table with standardized targets: killed and resumed, and resumed from what older releases wrote."""

import csv
import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from burnlike.cli.main import main
from burnlike.record import SafetensorsRecorder
from burnlike.train import PlainRenderer

from ..fork_server import ForkServer
from ..processes import HANGS_S
from .samples import files_of, metrics_of

YAML = """
device: cpu
threads: 1
data: {type: Csv, path: t.csv, target: y, kind: numbers, columns: {a: {kind: number}, b: {kind: number}},
  standardize_targets: true}
model: {type: Linear, d_input: 2, d_output: 1}
task: {type: Regression}
metrics: [{type: Mae}, {type: R2}]
optimizer: {type: Sgd}
training: {epochs: 3, batch_size: 8, checkpoint_every_steps: 3, train_metrics: true}
"""
MEAN = 1e6

pytestmark = pytest.mark.usefixtures("threads_of_its_own")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    draw = random.Random(0)
    rows = [(draw.gauss(0, 1), draw.gauss(0, 1)) for _ in range(60)]
    text = "".join(f"{a:.3f},{b:.3f},{MEAN + 3 * a - 2 * b:.4f}\n" for a, b in rows)
    Path("t.csv").write_text(f"a,b,y\n{text}")
    Path("job.yaml").write_text(YAML)
    return tmp_path


def without_rates(run: Path) -> list[dict[str, Any]]:
    return [{key: it for key, it in line.items() if key != "items_per_s"} for line in metrics_of(run)]


def assert_same(run: Path, other: Path) -> None:
    files, others = files_of(run), files_of(other)
    assert sorted(files) == sorted(others)
    assert [name for name in files if files[name] != others[name]] == []
    assert without_rates(run) == without_rates(other)


def predictions_of(run: str) -> list[float]:
    assert main(["predict", run, "t.csv", "--out", f"{run}.csv"]) == 0
    with Path(f"{run}.csv").open() as file:
        return [float(row["y"]) for row in csv.DictReader(file)]


@pytest.mark.weekly
def test_a_killed_run_ends_in_the_same_bits_and_predicts_in_the_unit_of_the_table(
    folder: Path, fork_server: ForkServer
) -> None:
    options = ["--set", "training.epochs=150"]
    assert main(["train", "job.yaml", "--run-dir", "whole", *options]) == 0
    run, output = folder / "run", folder / "output"
    config = str(folder / "job.yaml")
    process = fork_server.start(["train", config, "--run-dir", str(run), *options], output)
    deadline = time.monotonic() + HANGS_S
    while not [*run.glob("checkpoints/step-*")]:
        assert time.monotonic() < deadline, output.read_text()
        time.sleep(0.002)
    os.kill(process, signal.SIGKILL)
    assert fork_server.wait() == -signal.SIGKILL
    assert main(["train", "job.yaml", "--resume", "run", *options]) == 0
    assert_same(run, folder / "whole")
    found = predictions_of("run")
    assert found == predictions_of("whole")
    record = SafetensorsRecorder().load(
        run / "checkpoints" / max(os.listdir(run / "checkpoints")) / "model.safetensors"
    )
    weights = {name: torch.as_tensor(it).double() for name, it in record.tensors.items()}
    with Path("t.csv").open() as file:
        rows = [[float(it) for it in row.values()] for row in csv.DictReader(file)]
    features, targets = torch.tensor(rows, dtype=torch.float64).split([2, 1], 1)
    facts = json.loads((run / "data.json").read_text())["facts"]["target_scale"]
    expected = (features.float().double() @ weights["weight"] + weights["bias"]) * facts["std"][0] + facts["mean"][0]
    torch.testing.assert_close(torch.tensor(found, dtype=torch.float64), expected.flatten(), rtol=0, atol=1e-4)
    assert (expected - targets).abs().mean() < 2


@pytest.fixture
def stopped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that was stopped in the middle of its second epoch, beside the same one that was not."""
    assert main(["train", "job.yaml", "--run-dir", "whole"]) == 0
    with monkeypatch.context() as patch:
        patch.setattr(
            PlainRenderer, "advance", lambda _, now: signal.raise_signal(signal.SIGINT) if now == 10 else None
        )
        assert main(["train", "job.yaml", "--run-dir", "stopped"]) == 130
    return folder / "stopped"


def without_keys(values: dict[str, Any], *path: str) -> None:
    """Remove what an older release did not write."""
    *above, key = path
    for name in above:
        values = values[name]
    del values[key]


def change_state(run: Path, change: Callable[[Any], None]) -> None:
    path = max((run / "checkpoints").iterdir()) / "training.safetensors"
    record = SafetensorsRecorder().load(path)
    change(record.values["parts"])
    SafetensorsRecorder().save(record, path)


def test_a_run_of_a_release_with_fewer_keys_is_resumed(stopped: Path) -> None:
    config = yaml.safe_load((stopped / "config.yaml").read_text())
    for key in ("split", "folds", "fold", "decimal", "quote", "encoding"):
        without_keys(config, "data", key)
    for key in ("on_bad_item", "sampling"):
        without_keys(config, "training", key)
    without_keys(config, "lr_scheduler")
    (stopped / "config.yaml").write_text(yaml.safe_dump(config))
    facts = json.loads((stopped / "data.json").read_text())
    for key in ("targets", "target_scale"):
        without_keys(facts, "facts", key)
    (stopped / "data.json").write_text(json.dumps(facts))
    change_state(stopped, lambda parts: without_keys(parts, "loader", "sampling"))
    assert main(["train", "job.yaml", "--resume", "stopped"]) == 0
    assert_same(stopped, stopped.parent / "whole")


def old_sums(parts: Any) -> None:
    states = parts["counters"]["fit"]["metrics"][0]["r2"]
    (states["totals"],) = states.pop("parts")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda parts: without_keys(parts, "counters", "fit", "values"), "it lacks 'values'"),
        (lambda parts: without_keys(parts, "counters", "fit", "stopped_early"), "it lacks 'stopped_early'"),
        (lambda parts: without_keys(parts, "counters", "fit", "metrics"), "it lacks 'metrics'"),
        (old_sums, "metrics.r2: R2: the state has no 'parts'"),
    ],
)
def test_a_checkpoint_of_a_release_that_kept_less_is_refused(
    stopped: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Any], None], reason: str
) -> None:
    change_state(stopped, change)
    before = files_of(stopped)
    capsys.readouterr()
    assert main(["train", "job.yaml", "--resume", "stopped"]) == 2
    message = capsys.readouterr().err
    assert f"the checkpoint of step 10 can't be gone on with: {reason}" in message
    assert "Resume with the release that wrote it, or start a new run" in message
    assert files_of(stopped) == before


def test_predictions_without_their_unit_are_refused(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = stopped.parent / "whole"
    facts = json.loads((whole / "data.json").read_text())
    without_keys(facts, "facts", "target_scale")
    (whole / "data.json").write_text(json.dumps(facts))
    for command in (["predict", "whole", "t.csv"], ["evaluate", "whole"], ["export", "whole", "--to", "pt2"]):
        assert main(command) == 2
        assert "data.json lacks 'target_scale', without which predictions have no unit" in capsys.readouterr().err
