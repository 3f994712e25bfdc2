"""`burnlike train --find` and `burnlike profile`: what they measure, and that they write no run."""

import json
import re
from pathlib import Path

import pytest
import torch

from burnlike.cli.main import main
from burnlike.train import TrainConfig
from burnlike.train.job.finding import find_batch_size, find_rate
from burnlike.train.job.profiling import profile_steps

LINE = """
data: {type: Csv, path: t.csv, target: y, kind: numbers, validation_fraction: 0.2}
model: {type: Mlp, sizes: [1, 64, 1]}
task: {type: Regression}
optimizer: {type: Sgd}
lr_scheduler: {type: ConstantLr, lr: 0.1}
training: {epochs: 1, batch_size: 12, accumulation_steps: 2}
device: cpu
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    rows = [f"{x / 100},{3 * x / 100 - 1}" for x in range(200)]
    Path("t.csv").write_text("\n".join(["x,y", *rows]))
    Path("c.yaml").write_text(LINE)
    return "c.yaml"


def test_a_range_test_suggests_a_rate_that_trains(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", config, "--find", "lr", "--out", "found.json"]) == 0
    out = capsys.readouterr().out
    suggested = float(re.search(r"--set lr_scheduler\.lr=(\S+), where", out)[1])  # pyright: ignore[reportOptionalSubscript]
    found = json.loads(Path("found.json").read_text())
    assert found["suggested"] == pytest.approx(suggested, rel=0.1)
    assert found["rates"][:2] == pytest.approx([1e-7, 1e-7 * 1e8 ** (1 / 99)])
    assert len(found["rates"]) == len(found["losses"]) == len(found["smoothed"]) <= 100
    assert sorted(path.name for path in Path().iterdir()) == ["c.yaml", "found.json", "t.csv"]
    # The losses are those of a training by hand with the same rates: they fall, and then grow without an end.
    lowest = min(found["smoothed"])
    assert lowest < 0.9 * found["smoothed"][0]
    at = found["rates"].index(found["suggested"])
    assert found["rates"][at] < found["rates"][found["smoothed"].index(lowest)]
    assert found["smoothed"][-1] > 1.1 * lowest


def test_the_rates_are_those_of_the_steps(config: str) -> None:
    found = find_rate(TrainConfig.load(config, ["training.epochs=5"]), steps=30)
    assert found.rates[-1] <= 10.0
    assert found.rates == sorted(found.rates)
    smoothed = 0.0
    for number, (loss, average) in enumerate(zip(found.losses, found.smoothed, strict=True), 1):
        smoothed = 0.9 * smoothed + 0.1 * loss
        assert average == pytest.approx(smoothed / (1 - 0.9**number))


def test_the_largest_batch_is_found_by_memory_that_is_measured(
    config: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A forward and backward pass of an item keeps at least 64 floats.
    monkeypatch.setattr("burnlike.train.job.finding.available_memory", lambda: 60_000)
    found = find_batch_size(TrainConfig.load(config))
    assert found.per_item > 64 * 4
    largest = found.sizes[-1]
    assert found.free == int(0.7 * 60_000)
    assert largest.size == int((found.free - found.fixed) / found.per_item) < 160
    assert found.batch_size * found.accumulation_steps == 24
    assert found.batch_size <= largest.size
    tried = [it for it in found.sizes if it.rate is not None]
    assert len(tried) >= 3
    for it in tried:
        assert it.memory == pytest.approx(found.fixed + found.per_item * it.size, rel=0.2)
    monkeypatch.setattr("burnlike.train.job.finding.available_memory", lambda: 10**9)
    assert main(["train", config, "--find", "batch-size"]) == 0
    assert "--set training.batch_size=24 --set training.accumulation_steps=1" in capsys.readouterr().out
    monkeypatch.setattr("burnlike.train.job.finding.available_memory", lambda: 1000)
    assert main(["train", config, "--find", "batch-size"]) == 2
    assert "and one item takes more; lower the model's sizes" in capsys.readouterr().err


def test_what_does_not_go_with_a_search_is_refused(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    for options, message in (
        (["--find", "lr", "--sweep", "seed=1,2"], "leave --sweep out"),
        (["--find", "lr", "--resume"], "leave --resume out"),
        (["--out", "x"], "--out is for --find"),
    ):
        assert main(["train", config, *options]) == 2
        assert message in capsys.readouterr().err
    assert main(["profile", config, "--steps", "0"]) == 2


@pytest.mark.filterwarnings("ignore")  # torch's profiler warns of itself
def test_a_profile_says_where_time_and_memory_go(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", config, "--steps", "2", "--out", "prof"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^forward +[\d.]+ ms +[\d.]+ %$", out, re.MULTILINE)
    assert re.search(r"^aten::\S+ +[\d.]+ ms +[\d.]+ % +\d+ ", out, re.MULTILINE)
    trace = json.loads(Path("prof/trace.json").read_text())["traceEvents"]
    assert {"data", "forward", "backward", "optimizer"} <= {it.get("name") for it in trace}
    assert sorted(path.name for path in Path().iterdir()) == ["c.yaml", "prof", "t.csv"]
    found = profile_steps(TrainConfig.load(config), 1)
    assert found.resident == 4 * (64 + 64 + 64 + 1)
    assert found.peak > 2 * 12 * 64
    names = {it.name: it.calls for it in found.operations}
    assert names["aten::mm"] + names["aten::addmm"] >= 2 * 4  # two batches, two layers forward and backward
    assert not torch.is_inference_mode_enabled()
