"""Burn's own numbers for what a person sees: texts of numbers, running means, plots, the summary."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from burnlike.errors import RunDirError
from burnlike.train import LearnerSummary
from burnlike.train.view.formats import format_eta
from burnlike.train.view.live import NumericMetricState
from burnlike.train.view.plot import FullHistory, RecentHistory

Vectors = Callable[[str], Any]


def entry_of(vectors: Vectors, name: str) -> dict[str, Any]:
    (found,) = [it for it in vectors("metrics") if it["id"] == name]
    return found


def test_format_eta(vectors: Vectors) -> None:
    entry = entry_of(vectors, "format_eta")
    assert [format_eta(it) for it in entry["inputs"]] == entry["expected"]["outputs"]["text"]


def test_numeric_state(vectors: Vectors) -> None:
    entry = entry_of(vectors, "NumericMetricState/derived_format")
    state, texts = NumericMetricState(), []
    for it in entry["inputs"]:
        state.update(it["value"], it["batch_size"])
        texts.append(f"epoch {state.running_value:.2f} - batch {state.value:.2f}")
    assert texts == entry["expected"]["outputs"]["formatted"]


def test_numeric_state_without_values_is_nan(vectors: Vectors) -> None:
    assert entry_of(vectors, "NumericMetricState/derived_empty")["expected"]["outputs"] == {
        "value": "nan",
        "running_value": "nan",
    }
    state = NumericMetricState()
    state.update(1.0, 1)
    state.reset()
    assert math.isnan(state.value)
    assert math.isnan(state.running_value)


@pytest.mark.parametrize("name", ["aggregate/numeric_entry", "aggregate/HEAD/last_value_for_final"])
def test_the_value_of_an_epoch(vectors: Vectors, name: str) -> None:
    """A training line counts its steps, as Burn's entries their items; of a validation the last line counts alone."""
    entry = entry_of(vectors, name)
    entries = [(kind, it) for found in entry["inputs"]["entries"] for kind, it in found.items()]
    split = "valid" if any(kind == "Final" for kind, _ in entries) else "train"
    lines, step = [], 0
    for kind, it in entries:
        step += it["count"] if kind == "Aggregated" else 1
        value = it["aggregated_value"] if kind == "Aggregated" else it
        lines.append({"step": step, "epoch": 0, "split": split, "loss": value})
    (loss,) = LearnerSummary.of(lines).metrics
    assert loss.first == entry["expected"]


def lines_of(values_per_epoch: list[list[float]], split: str) -> list[dict[str, Any]]:
    """Lines of metrics with one step each."""
    numbered = [(epoch, value) for epoch, values in enumerate(values_per_epoch) for value in values]
    return [
        {"step": step, "epoch": epoch, "split": split, "loss": value}
        for step, (epoch, value) in enumerate(numbered, start=1)
    ]


def test_the_best_epoch(vectors: Vectors) -> None:
    entry = entry_of(vectors, "aggregate/find_epoch")
    lines = lines_of(entry["inputs"]["values_per_epoch"], "train")
    (loss,) = LearnerSummary.of(lines).metrics
    assert loss.lowest.epoch == loss.best.epoch == entry["expected"]


def test_the_summary_of_a_run(vectors: Vectors, tmp_path: Path) -> None:
    entry = entry_of(vectors, "LearnerSummary/collected")
    files = {
        split: [float(it) for it in entry["inputs"]["files"][f"{split}/epoch-1/Loss.log"].split()]
        for split in ("train", "valid")
    }
    lines = [line for split, values in files.items() for line in lines_of([values], split)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    summary = LearnerSummary.of_run(tmp_path)
    expected = entry["expected"]["outputs"]
    for split in ("train", "valid"):
        metric = summary.find(split, "loss")
        assert metric is not None
        assert [{"step": it.epoch, "value": it.value} for it in metric.epochs] == expected[split][0]["entries"]


@pytest.mark.parametrize("name", ["LearnerSummary/missing_dir", "LearnerSummary/missing_train_valid"])
def test_the_summary_of_nothing_is_an_error(vectors: Vectors, tmp_path: Path, name: str) -> None:
    given = entry_of(vectors, name)["inputs"]["dir"]
    with pytest.raises(RunDirError, match="has no lines of metrics"):
        LearnerSummary.of_run({"empty": tmp_path, "does not exist": tmp_path / "missing"}[given])


def test_full_history(vectors: Vectors) -> None:
    entry = entry_of(vectors, "FullHistory/points")
    history = FullHistory(entry["config"]["max_samples"])
    for value in range(100):
        history.push("train", float(value))
    assert [list(point) for point in history.points["train"]] == entry["expected"]["outputs"]["train"]


def test_full_history_with_gaps(vectors: Vectors) -> None:
    entry = entry_of(vectors, "FullHistory/HEAD/none_gaps")
    history = FullHistory(entry["config"]["max_samples"])
    for value in entry["inputs"]:
        history.push("train", value)
    expected = entry["expected"]["outputs"]
    assert [list(point) for point in history.points["train"]] == expected["points"]
    assert history.next_x == expected["next_x"]


def test_recent_history(vectors: Vectors) -> None:
    entry = entry_of(vectors, "RecentHistory/min_y")
    history = RecentHistory(entry["config"]["max_samples"])
    lowest = []
    for value in entry["inputs"]:
        history.push("train", value)
        lowest.append(min(y for _, y in history.points["train"]))
    expected = entry["expected"]["outputs"]
    assert lowest[2:] == [expected["min_y_after_3"], expected["min_y_after_4"]]


def test_recent_history_with_gaps(vectors: Vectors) -> None:
    entry = entry_of(vectors, "RecentHistory/HEAD/none_values")
    history = RecentHistory(entry["config"]["max_samples"])
    places: list[list[float]] = []
    for value in entry["inputs"]:
        history.push("train", value)
        places.append([x for x, _ in history.points.get("train", [])])
    assert places == [[], [], [2.0], [2.0, 3.0]]
    expected = entry["expected"]["outputs"]
    assert [min(places[3]), max(places[3])] == expected["bounds_x_after_each"][3]
    assert [y for _, y in history.points["train"]] == expected["bounds_y_after_4"]
