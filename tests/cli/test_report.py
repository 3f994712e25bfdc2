"""`burnlike report`: one page about runs."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from burnlike.cli.main import main

from ..train.runs.test_run_files import make_run


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        make_run(tmp_path / "runs" / name)
    return tmp_path


def test_it_writes_one_page(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "runs/a"]) == 0
    assert capsys.readouterr().out == "the report is in report.html\n"
    assert "<title>a</title>" in (runs / "report.html").read_text()


def test_names_in_runs_will_do_and_each_run_counts_once(runs: Path) -> None:
    assert main(["report", "a", "runs/b", "runs/a", "--out", "both.html"]) == 0
    assert "<title>2 runs</title>" in (runs / "both.html").read_text()
    make_run(runs / "a")
    assert main(["report", "a", "--out", "a.html"]) == 0
    assert "<title>a</title>" in (runs / "a.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing"], "there is no run at missing; `burnlike runs` lists those in runs/"),
        (["runs"], "runs is not the directory of a run: it has no run.lock and no metrics.jsonl"),
        (["a", "--out", "no/where.html"], "no/where.html: can't be written: No such file or directory"),
        (["a", "--out", "runs"], "runs: can't be written: Is a directory"),
    ],
)
def test_wrong_input_is_one_error(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(["report", *arguments]) == 2
    assert capsys.readouterr().err == f"burnlike: error: {message}\n"


def test_it_does_not_load_torch(runs: Path) -> None:
    program = "import sys; from burnlike.cli.main import main; main(['report', 'a']); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=runs)


def test_processes_have_their_rates_waits_and_share_of_the_peak(runs: Path) -> None:
    """A product of 4 x 8 numbers takes 64 operations for an item, and a training three times as many."""
    (runs / "runs" / "a" / "config.yaml").write_text("type: Linear\nd_input: 4\nd_output: 8\nbias: false\n")
    looks = [
        {"step": 4, "items_per_s": [1e9, 3e9], "waiting": [0.5, 0.0], "host": ["one", "two<"]},
        {"step": 8, "items_per_s": [3e9, 1e9], "waiting": [0.25, 0.125], "host": ["one", "two<"]},
    ]
    lines = [json.dumps(it) for it in looks]
    (runs / "runs" / "a" / "ranks.jsonl").write_text("\n".join(["{damaged", '{"items_per_s": ["x"]}', *lines]))
    assert main(["report", "a", "--peak-tflops", "3.84"]) == 0
    page = (runs / "report.html").read_text()
    rows = re.findall(r"<tr><td>(\d)</td><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td>", page)
    assert rows == [
        ("0", "one", "2.00e+09", "37.5%", "0.384", "10.0%"),
        ("1", "two&lt;", "2.00e+09", "6.2%", "0.384", "10.0%"),
    ]
