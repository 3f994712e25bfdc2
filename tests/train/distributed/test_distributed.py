"""Several processes train as one does with the joined batches; they stop, go on, change their number, and may die."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from burnlike.config import StrategyConfig
from burnlike.config.registry import imported

from ...marks import slow, weekly
from ...processes import HANGS_S, assert_succeed, launched
from ..samples import metrics_of, write_config
from . import program
from .kills import kill_one_of_two

STRATEGIES = [
    tag for tag, it in imported(StrategyConfig).items() if it.__module__.startswith("burnlike.") and tag != "none"
]
CASES = [(strategy, optimizer) for strategy in STRATEGIES for optimizer in ("burnlike", "torch")]
CASES += [("fsdp2", "adagrad")]  # its states are there before the first step
HSDP = '{"strategy": "fsdp2", "replicate": 2}'
"""Of four processes."""
QUICK_CASES = [("ddp", "burnlike")]


def run_several(strategy: str, optimizer: str, out: Path, *stop: str) -> dict[str, torch.Tensor]:
    out.mkdir(exist_ok=True)
    logs = [out / f"log-{rank}" for rank in range(4 if strategy == HSDP else 2)]
    arguments = ["-m", "tests.train.distributed.program", strategy, optimizer, str(out), *stop]
    assert_succeed(launched(arguments, logs), logs)
    return load_file(out / "weights.safetensors")


def lines_of(run: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{name: it for name, it in line.items() if name not in ("time", "items_per_s")} for line in lines]


@pytest.mark.parametrize(
    ("strategy", "optimizer"),
    [
        *QUICK_CASES,
        *slow(*(it for it in CASES if it[1] == "burnlike" and it not in QUICK_CASES)),
        *weekly(*(it for it in CASES if it[1] != "burnlike")),
    ],
)
def test_two_processes_are_one_with_the_joined_batches(strategy: str, optimizer: str, tmp_path: Path) -> None:
    """With accumulation, batches and last windows of unequal size, clipping, an average, and weighted losses."""
    (tmp_path / "one").mkdir()
    expected = program.train("none", optimizer, tmp_path / "one")
    found = run_several(strategy, optimizer, tmp_path / "two")
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-12, atol=1e-14)
    lines = [lines_of(tmp_path / place / "run") for place in ("one", "two")]
    for one, two in zip(*lines, strict=True):
        assert {**two, "loss": 0} == {**one, "loss": 0}
        assert two["loss"] == pytest.approx(one["loss"], rel=1e-12)


@pytest.mark.parametrize(
    ("strategy", "optimizer"),
    [
        *slow(("ddp", "burnlike")),
        *weekly(*(it for it in CASES if it != ("ddp", "burnlike")), (HSDP, "burnlike")),
    ],
)
def test_a_stop_of_any_process_is_obeyed_by_all_and_resumed_in_the_same_bits(
    strategy: str, optimizer: str, tmp_path: Path
) -> None:
    expected = run_several(strategy, optimizer, tmp_path / "whole")
    run_several(strategy, optimizer, tmp_path / "parts", "3")
    found = run_several(strategy, optimizer, tmp_path / "parts")
    for name, value in expected.items():
        assert torch.equal(found[name], value), name
    assert lines_of(tmp_path / "parts" / "run") == lines_of(tmp_path / "whole" / "run")


@pytest.mark.parametrize("strategy", [*slow(*STRATEGIES), *weekly(HSDP)])
def test_several_processes_become_one_and_two_and_several_again(strategy: str, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    expected = program.train("none", "burnlike", tmp_path / "one")
    run_several(strategy, "burnlike", tmp_path / "run", "2")
    program.train("none", "burnlike", tmp_path / "run", stop=3)
    if strategy == HSDP:
        run_several("fsdp2", "burnlike", tmp_path / "run", "4")
    found = run_several(strategy, "burnlike", tmp_path / "run")
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-12, atol=1e-14)


def torchrun(*arguments: str, restarts: int = 0) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", str(restarts)]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "-m", "burnlike", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


def workers_of(launcher: subprocess.Popen[str]) -> list[int]:
    command = ["pgrep", "-P", str(launcher.pid), "-f", "burnlike"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return [int(it) for it in found.stdout.split()]


def wait_for_checkpoint(run: Path, launcher: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + HANGS_S
    while not list((run / "checkpoints").glob("step-*")):
        assert launcher.poll() is None, launcher.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_config(tmp_path)


LONG = ["--set", "training.epochs=30", "--set", "task.sample_length=0", "--set", "distributed.strategy=ddp"]


@pytest.mark.slow
def test_a_killed_rank_ends_the_job_with_a_message(config: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    launcher = torchrun("train", str(config), "--run-dir", str(run), *LONG)
    wait_for_checkpoint(run, launcher)
    os.kill(workers_of(launcher)[1], signal.SIGKILL)
    text, _ = launcher.communicate(timeout=HANGS_S)
    assert launcher.returncode != 0
    assert "another process of the job has ended" in text or "SIGKILL" in text or "Signal 9" in text, text
    assert not list((run / "checkpoints").glob("step-*/*.partial"))


@pytest.mark.weekly
def test_a_job_that_is_restarted_goes_on_by_itself(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the run that it had begun, whatever others of the same name there are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(Path(__file__).parents[3])])
    )
    runs = tmp_path / "runs"
    launcher = torchrun("train", str(config), *LONG)
    text, _ = launcher.communicate(timeout=HANGS_S)
    assert launcher.returncode == 0, text
    launcher = torchrun("train", str(config), *LONG, restarts=1)
    wait_for_checkpoint(runs / "small-2", launcher)
    os.kill(workers_of(launcher)[1], signal.SIGKILL)
    text, _ = launcher.communicate(timeout=HANGS_S)
    assert launcher.returncode == 0, text
    assert re.search(r"resuming from .*step-\d+", text)
    assert {it.name for it in runs.iterdir()} == {"small", "small-2"}
    assert metrics_of(runs / "small-2") == metrics_of(runs / "small")
    assert (runs / "small-2" / "model.safetensors").read_bytes() == (runs / "small" / "model.safetensors").read_bytes()


@pytest.mark.weekly
def test_a_job_that_is_restarted_before_it_began_leaves_older_runs_alone(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launcher's first attempt ends before it makes a directory; there is a run that could be taken for its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(Path(__file__).parents[3])]))
    (tmp_path / "breaks_once.py").write_text(
        "import os\nif os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n    raise SystemExit(3)\n"
    )
    older = tmp_path / "runs" / "small"
    older.mkdir(parents=True)
    (older / "run.lock").write_text("1\n")
    short = ["--set", "training.epochs=1", "--set", "task.sample_length=0", "--set", "distributed.strategy=ddp"]
    launcher = torchrun("train", str(config), "--import", "breaks_once", *short, restarts=1)
    text, _ = launcher.communicate(timeout=HANGS_S)
    assert launcher.returncode == 0, text
    assert [it.name for it in older.iterdir()] == ["run.lock"]
    assert (tmp_path / "runs" / "small-2" / "model.safetensors").exists()


@pytest.mark.weekly
def test_an_error_of_rank_0_before_the_start_is_one_line_of_each(config: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").touch()
    logs = [tmp_path / f"log-{rank}" for rank in range(2)]
    command = ["-m", "burnlike", "train", str(config), "--run-dir", str(tmp_path / "run"), *LONG]
    for worker in launched(command, logs, forked=False):
        assert worker.wait(timeout=HANGS_S) == 2
    first, second = (log.read_text() for log in logs)
    assert "holds other files" in first
    assert second.startswith("burnlike: error: another process of the job has ended")
    assert "Traceback" not in first + second


HABITS = [
    ("statistics", "ddp"),
    ("statistics", "fsdp2"),
    ("unused", "ddp"),
    ("loaders_for_one", "ddp"),
    ("loggers", "ddp"),
    ("other_loaders", "ddp"),
]
LONGER_HABITS = [
    ("used_optimizer", "fsdp2"),
    ("zero_redundancy", "ddp"),
    ("undivided", "fsdp2"),
    ("own_loop", "fsdp2"),
]


@pytest.mark.parametrize(("case", "strategy"), [*slow(*HABITS), *weekly(*LONGER_HABITS)])
def test_habits_of_users_work_or_say_why_not(case: str, strategy: str, tmp_path: Path) -> None:
    logs = [tmp_path / f"log-{rank}" for rank in range(2)]
    command = ["-m", "tests.train.distributed.habits", case, strategy, str(tmp_path)]
    assert_succeed(launched(command, logs, forked=case != "own_loop"), logs)  # whose ranks draw the same ids


@pytest.mark.weekly
def test_killed_at_random_moments_and_resumed_ends_in_the_same_bits(tmp_path: Path) -> None:
    """`make test-kills` does so fifty times."""
    assert kill_one_of_two(4, tmp_path) >= 1


def test_without_a_launcher_the_strategy_is_refused(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from burnlike.cli.main import main

    assert main(["train", str(config), "--set", "distributed.strategy=ddp"]) == 2
    assert "start them by burnlike launch CONFIG --nproc 2" in capsys.readouterr().err
