"""`burnlike runs`: the runs of a directory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from burnlike.cli.main import main

from ..train.runs.test_run_files import make_run


def lines(losses: list[float], split: str = "valid", **more: float) -> list[dict[str, object]]:
    return [
        {"step": 10 * number, "epoch": number - 1, "split": split, "loss": loss, "time": 60.0 * number, **more}
        for number, loss in enumerate(losses, 1)
    ]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "runs"
    make_run(root / "a", lines([2.0, 1.0, 1.5], accuracy=50.0), "seed: 1\noptimizer: {lr: 0.1}\nsame: 1\n")
    make_run(root / "b", lines([3.0, 0.5]), "seed: 2\noptimizer: {lr: 0.1}\nsame: 1\n")
    make_run(root / "c", [], "seed: 3\nsame: 1\n")
    (root / "c" / "model.safetensors").touch()
    (root / "no run").mkdir()
    return root


def table_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[list[str]]:
    assert main(["runs", *arguments]) == 0
    return [line.split("  ") for line in capsys.readouterr().out.splitlines()]


def cells_of(row: list[str]) -> list[str]:
    return [cell.strip() for cell in row if cell.strip()]


def test_the_table(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heads, *rows = map(cells_of, table_of(capsys))
    assert heads == ["run", "state", "steps", "best validation loss (epoch)", "last", "time", "config"]
    assert rows == [
        ["a", "stopped", "30", "1.0000 (2)", "1.5000", "2:00", "seed=1, lr=0.1"],
        ["b", "stopped", "20", "0.5000 (2)", "0.5000", "1:00", "seed=2, lr=0.1"],
        ["c", "done", "0", "-", "-", "-", "seed=3"],
    ]


@pytest.mark.parametrize(
    ("key", "order"),
    [("name", "abc"), ("best", "bac"), ("last", "bac"), ("steps", "cba"), ("time", "bac"), ("state", "cab")],
)
def test_it_is_sorted(runs: Path, capsys: pytest.CaptureFixture[str], key: str, order: str) -> None:
    _, *rows = table_of(capsys, "--sort", key)
    assert "".join(row[0] for row in rows) == order


def test_metrics_of_which_high_values_are_good(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(runs / "d", lines([1.0, 1.0], accuracy=70.0))
    _, *rows = table_of(capsys, str(runs), "--metric", "accuracy", "--sort", "best")
    assert [row[0] for row in rows] == ["d", "a", "b", "c"]
    assert "70 (1)" in cells_of(rows[0])


def test_json_has_everything(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "--json", "--sort", "best"]) == 0
    first, second, third = json.loads(capsys.readouterr().out)
    assert [it["name"] for it in (first, second, third)] == ["b", "a", "c"]
    assert first["config_differences"] == {"seed": 2, "optimizer.lr": 0.1}
    assert first["metrics"] == [
        {"split": "valid", "name": "loss", "first": 3.0, "last": 0.5, "best": 0.5, "best_epoch": 2}
    ]
    assert (first["steps"], first["state"], third["metrics"]) == (20, "stopped", [])


def test_problems_and_reasons_are_said(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (runs / "a" / "metrics.jsonl").write_text("no\n")
    (runs / "b" / "log.txt").write_text(
        "2026-01-01T10:00:00+00:00 starting at step 0 of 9\n2026-01-01T10:00:00+00:00 failed: OSError: \x1b[2J full\n"
    )
    assert main(["runs"]) == 0
    out = capsys.readouterr().out
    assert "a: metrics.jsonl: line 1 can't be read and left out" in out
    assert "b: OSError: \\x1b[2J full" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing"], "missing: No such file or directory; expected a directory that holds runs"),
        (["."], "there are no runs in ./ yet; `burnlike train CONFIG` writes one to runs/"),
        (["--sort", "step"], "--sort step: expected one of name, state, steps, best, last, time, started"),
        (["--metric", "acuracy"], "--metric acuracy: no run has it; expected one of accuracy, loss"),
    ],
)
def test_wrong_input_is_one_error(
    runs: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(runs / "no run" if arguments == ["."] else runs.parent)
    assert main(["runs", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_it_does_not_load_torch(runs: Path) -> None:
    program = "import sys; from burnlike.cli.main import main; main(['runs']); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=runs.parent)
