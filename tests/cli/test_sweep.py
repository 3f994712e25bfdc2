"""`burnlike train --sweep`: runs of all combinations, in directories of their own."""

import json
import math
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from burnlike.cli.main import main
from burnlike.errors import ConfigError
from burnlike.train.job.sweep import fold_spreads, split_values, sweep_runs

from ..processes import HANGS_S, wait_until
from ..train.samples import files_of, metrics_of, write_config

CLASSES = """
data: {type: Csv, path: t.csv, target: y, validation_fraction: 0.4}
model: {type: Linear, d_input: 1, d_output: 2}
task: {type: Classification}
metrics: [{type: Accuracy}]
optimizer: {type: Sgd}
lr_scheduler: {type: ConstantLr, lr: 0.1}
training: {epochs: 3, batch_size: 10, keep_best: {metric: accuracy}}
device: cpu
"""
SHORT = ("--set", "training.epochs=1", "--set", "training.steps_per_epoch=8")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The small config, in the current directory."""
    monkeypatch.chdir(tmp_path)
    return write_config(tmp_path).name


def train(*arguments: str) -> int:
    return main(["train", *arguments])


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert train(*arguments) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1", ["1"]),
        ("1,2", ["1", "2"]),
        ("a, b ,c", ["a", " b ", "c"]),
        ("[1,2],[3]", ["[1,2]", "[3]"]),
        ("{a: [1, 2], b: 'x,}y'},3", ["{a: [1, 2], b: 'x,}y'}", "3"]),
        ("\"a,b\",'c,d',e'f,g", ['"a,b"', "'c,d'", "e'f", "g"]),
        ("[1,2", ["[1,2"]),
        ("", [""]),
        ("1,,2", ["1", "", "2"]),
    ],
)
def test_values_are_split_at_commas_outside_of_brackets_and_quotes(text: str, values: list[str]) -> None:
    assert split_values(text) == values


def test_runs_are_the_product_and_named_by_what_differs() -> None:
    runs = sweep_runs(["lr_scheduler.initial_lr=1e-3,3e-4", "seed=1,2"])
    assert [(run.name, run.overrides) for run in runs] == [
        ("initial_lr=1e-3,seed=1", ("lr_scheduler.initial_lr=1e-3", "seed=1")),
        ("initial_lr=1e-3,seed=2", ("lr_scheduler.initial_lr=1e-3", "seed=2")),
        ("initial_lr=3e-4,seed=1", ("lr_scheduler.initial_lr=3e-4", "seed=1")),
        ("initial_lr=3e-4,seed=2", ("lr_scheduler.initial_lr=3e-4", "seed=2")),
    ]
    assert [run.name for run in sweep_runs(["model.type=A,B", "data.type=C"])] == [
        "model.type=A,data.type=C",
        "model.type=B,data.type=C",
    ]
    assert [run.name for run in sweep_runs(["data.path=a/b.txt,a_b.txt", "m.layers[0].d=[1, 2]"])] == [
        "path=a_b.txt,d=1_2",
        "path=a_b.txt,d=1_2'",
    ]
    (run,) = sweep_runs([f"task.prompt={'x' * 1000}"])
    assert len(run.name) < 60
    assert run.overrides == (f"task.prompt={'x' * 1000}",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["seed"], "--sweep seed: expected KEY=VALUE,VALUE, such as training.batch_size=8,16"),
        (["seed=1,"], "--sweep seed=1,: expected KEY=VALUE,VALUE, such as training.batch_size=8,16"),
        (["=1"], "--sweep =1: expected KEY=VALUE,VALUE, such as training.batch_size=8,16"),
        (["seed=1,2,1"], "--sweep seed=1,2,1: the value 1 stands twice"),
        (
            ["seed=1,2", "seed=3"],
            "--sweep seed=3: seed is swept by another --sweep already; write all its values in one",
        ),
    ],
)
def test_wrong_options_are_refused(options: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        sweep_runs(options)


def test_each_run_is_the_one_that_its_values_give_alone(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = ("--sweep", "optimizer.weight_decay=0,0.2", "--sweep", "seed=1,2")
    assert train(config, *SHORT, *sweep) == 0
    out = capsys.readouterr().out
    names = [f"weight_decay={decay},seed={seed}" for decay in ("0", "0.2") for seed in (1, 2)]
    assert sorted(os.listdir("runs/small-sweep")) == sorted([*names, "sweep.json"])
    assert re.findall(r"^run (\d) of 4: (.*)$", out, re.MULTILINE) == [
        (str(number), name) for number, name in enumerate(names, 1)
    ]
    head, *rows = out.strip().splitlines()[-5:]
    assert re.fullmatch(r"run +best loss +epoch +steps +training loss +validation loss", head)
    assert sorted(row.split()[0] for row in rows) == names
    best = [float(row.split()[1]) for row in rows]
    assert best == sorted(best)
    assert all(re.search(r" 1 +8 +\d\.\d{4} +\d\.\d{4}$", row) for row in rows)
    said = json.loads(Path("runs/small-sweep/sweep.json").read_text())["runs"]
    assert [it["run"] for it in said] == [row.split()[0] for row in rows]
    assert said[0]["set"] == said[0]["run"].replace("weight", "optimizer.weight").split(",")
    assert f"{said[0]['best']:.4f}" == rows[0].split()[1]
    assert train(config, *SHORT, "--run-dir", "alone", "--set", "optimizer.weight_decay=0.2", "--set", "seed=1") == 0
    among = Path("runs/small-sweep/weight_decay=0.2,seed=1")
    assert files_of(among) == files_of(Path("alone"))
    assert metrics_of(among) == metrics_of(Path("alone"))
    assert train(config, *SHORT, "--sweep", "seed=5") == 0
    assert sorted(os.listdir("runs/small-sweep-2")) == ["seed=5", "sweep.json"]


def test_runs_are_ranked_by_the_metric_of_keep_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(CLASSES)
    rows = [f"{x / 10},{int(x > 25)}" for x in range(50)]
    Path("t.csv").write_text("\n".join(["x,y", *rows]))
    assert train("c.yaml", "--sweep", "lr_scheduler.lr=1e-9,0.3,0.1") == 0
    head, *table = capsys.readouterr().out.strip().splitlines()[-4:]
    assert head.split()[:4] == ["run", "best", "accuracy", "epoch"]
    values = {row.split()[0]: float(row.split()[1]) for row in table}
    assert [*values.values()] == sorted(values.values(), reverse=True)
    assert [*values][-1] == "lr=1e-9"


def test_folds_are_a_sweep_with_mean_and_deviation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(CLASSES.replace(", validation_fraction: 0.4", ""))
    rows = [f"{x / 10},{int(x > 25)}" for x in range(50)]
    Path("t.csv").write_text("\n".join(["x,y", *rows]))
    assert train("c.yaml", "--folds", "3", "--set", "data.split=stratified", "--run-dir", "cv") == 0
    table = capsys.readouterr().out.strip().splitlines()[-3:]
    results = [json.loads(Path(f"cv/fold={it}/results.json").read_text()) for it in range(3)]
    losses, shares = ([it["values"]["valid"][name] for it in results] for name in ("loss", "accuracy"))
    spread = json.loads(Path("cv/sweep.json").read_text())["folds"][0]
    assert spread["folds"] == 3
    for name, values in (("loss", losses), ("accuracy", shares)):
        mean = sum(values) / 3
        assert spread["values"][name] == pytest.approx(
            {
                "mean": mean,
                "deviation": (sum((it - mean) ** 2 for it in values) / 2) ** 0.5,
                "lowest": min(values),
                "highest": max(values),
            }
        )
    assert [row.split()[0] for row in table] == ["validation", "loss", "accuracy"]
    assert "at least 2 parts" in fails(capsys, "c.yaml", "--folds", "1")
    assert "unknown key 'folds'" in fails(capsys, "char_gpt", "--folds", "2")


def test_a_metric_that_a_fold_lacks_has_no_spread() -> None:
    values = (math.nan, 0.5, 0.7)  # R2 of one row, and of several
    runs = sweep_runs(["data.fold=0,1,2"])
    results: Any = [(run, SimpleNamespace(values={"valid": {"r2": it}})) for run, it in zip(runs, values, strict=True)]
    (spread,) = fold_spreads(results)
    assert all(map(math.isnan, spread.values["r2"].values()))


def test_all_configs_are_checked_before_the_first_run(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    message = fails(capsys, config, "--sweep", "seed=1,-2,3", "--sweep", "training.epochs=1,x")
    assert message.splitlines() == [
        "burnlike: error: --sweep training.epochs=x: training.epochs: expected an int >= 1, got 'x' (a string)",
        "--sweep seed=-2: seed: expected an int >= 0 and < 4294967296, got -2",
    ]
    assert "data.path" in fails(capsys, config, "--sweep", "data.path=corpus.txt,nowhere.txt")
    assert "seeed: unknown key 'seeed'; did you mean 'seed'?" in fails(capsys, config, "--sweep", "seeed=1")
    assert "a sweep needs its config" in fails(capsys, "--sweep", "seed=1", "--resume", "runs/x")
    assert not Path("runs").exists()


def test_a_run_that_fails_is_told_and_the_others_go_on(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(config, *SHORT, "--sweep", "device=cuda:7,cpu") == 2
    out = capsys.readouterr().out
    assert "device=cuda_7 failed: there is no device 'cuda:7'" in out
    first, last = out.strip().splitlines()[-2:]
    assert re.search(r"^device=cpu +\d\.\d{4} +1 +8 +\d\.\d{4} +\d\.\d{4}$", first)
    assert re.search(r"^device=cuda_7 +failed +- +- +- +-$", last)
    assert sorted(os.listdir("runs/small-sweep")) == ["device=cpu", "sweep.json"]


def test_directories(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = ("--sweep", "seed=1,2")
    assert train(config, *SHORT, *sweep, "--run-dir", "mine") == 0
    assert sorted(os.listdir("mine")) == ["seed=1", "seed=2", "sweep.json"]
    assert "mine holds files; choose a new directory" in fails(capsys, config, *SHORT, *sweep, "--run-dir", "mine")
    assert "there is no sweep at nowhere" in fails(capsys, config, *SHORT, *sweep, "--resume", "nowhere")
    assert "mine/seed=1 is a single run and no sweep" in fails(
        capsys, config, *SHORT, *sweep, "--resume", "mine/seed=1"
    )
    assert "there is no run of small-sweep" in fails(capsys, config, *SHORT, *sweep, "--resume")


def test_a_resumed_sweep_goes_on_where_it_stopped(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(config, *SHORT, "--sweep", "seed=1,2,3", "--run-dir", "whole") == 0
    assert train(config, *SHORT, "--sweep", "seed=1", "--run-dir", "part") == 0
    Path("part/seed=1/model.safetensors").unlink()
    assert train(config, *SHORT, "--sweep", "seed=1,2,3", "--resume", "part") == 0
    assert re.search(r"^resuming from part/seed=1/checkpoints/step-0*8$", capsys.readouterr().out, re.MULTILINE)
    for seed in (1, 2, 3):
        assert files_of(Path(f"part/seed={seed}")) == files_of(Path(f"whole/seed={seed}"))
    # other values than those that a run began with end that run, as for a single one
    assert train(config, *SHORT, "--set", "model.d_ff=32", "--sweep", "seed=3,4", "--resume", "part") == 2
    out = capsys.readouterr().out
    assert "seed=3 failed: the run part/seed=3 was started with another config: model.d_ff: 24 -> 32" in out
    assert re.search(r"^seed=4 +\d\.\d+ +1 +8 ", out, re.MULTILINE)


@pytest.mark.slow
def test_a_signal_ends_the_sweep_and_says_how_to_go_on(config: str) -> None:
    command = [sys.executable, "-m", "burnlike", "train", config, "--set", "training.epochs=300"]
    command += ["--sweep", "seed=1,2", "--device", "cpu"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: bool(list(Path().glob("runs/small-sweep/seed=1/checkpoints/step-*"))), process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=HANGS_S)
    assert process.returncode == 130, err
    found = re.search(r"^stopped by SIGINT; go on with: burnlike (.*)$", out + err, re.MULTILINE)
    assert found
    assert found[1] == (
        "train small.yaml --set training.epochs=300 --sweep seed=1,2 --device cpu --resume runs/small-sweep"
    )
    assert not Path("runs/small-sweep/seed=2").exists()
