"""Metrics as JSON lines."""

import json
import math
from pathlib import Path

import pytest

from burnlike.errors import RunDirError
from burnlike.train import MetricsLog


def test_lines_are_json_and_grow(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.append({"step": 1, "loss": 0.1})
    log.append({"step": 2, "loss": math.nan})
    assert log.path.read_text() == '{"step": 1, "loss": 0.1}\n{"step": 2, "loss": null}\n'
    assert log.read() == [{"step": 1, "loss": 0.1}, {"step": 2, "loss": None}]


def test_cut_back_drops_later_steps_and_damaged_lines(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for step in (1, 2, 2, 3):
        log.append({"step": step})
    with open(log.path, "a") as file:
        file.write("not json\n" + json.dumps({"step": 1})[:-1])
    log.cut_back(2)
    assert [line["step"] for line in log.read()] == [1, 2, 2]
    log.append({"step": 3})
    assert [line["step"] for line in log.read()] == [1, 2, 2, 3]


def test_cut_back_of_a_log_that_fits_changes_nothing(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.cut_back(0)
    assert not log.path.exists()
    log.append({"step": 1})
    before = log.path.stat()
    log.cut_back(1)
    assert log.path.stat().st_ino == before.st_ino


def test_a_log_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(RunDirError, match=r"metrics.jsonl can't be written: Is a directory"):
        MetricsLog(tmp_path / "metrics.jsonl").append({"step": 1})
