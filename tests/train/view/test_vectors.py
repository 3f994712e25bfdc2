"""Burn's own numbers for what a person sees: texts of numbers, running means, plots, the summary."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from burnlike.errors import ArgumentError, RunDirError
from burnlike.train import LearnerSummary
from burnlike.train.view.formats import format_eta, format_float
from burnlike.train.view.history import FullHistory, RecentHistory
from burnlike.train.view.numeric import (
    Aggregated,
    Final,
    NumericEntry,
    NumericMetricState,
    Value,
    aggregate,
    deserialize,
    serialize,
)

Vectors = Callable[[str], Any]


def entry_of(vectors: Vectors, name: str) -> dict[str, Any]:
    (found,) = [it for it in vectors("metrics") if it["id"] == name]
    return found


def read_entry(plain: dict[str, Any]) -> NumericEntry:
    ((kind, value),) = plain.items()
    if kind == "Aggregated":
        return Aggregated(value["aggregated_value"], value["count"])
    return {"Value": Value, "Final": Final}[kind](value)


def test_format_float(vectors: Vectors) -> None:
    entry = entry_of(vectors, "format_float/derived")
    found = [format_float(it, entry["config"]["precision"]) for it in entry["inputs"]]
    assert found == entry["expected"]["outputs"]["formatted"]


def test_format_eta(vectors: Vectors) -> None:
    entry = entry_of(vectors, "format_eta")
    assert [format_eta(it) for it in entry["inputs"]] == entry["expected"]["outputs"]["text"]


def test_numeric_state(vectors: Vectors) -> None:
    entry = entry_of(vectors, "NumericMetricState/derived_format")
    state, texts, serialized = NumericMetricState(), [], []
    for it in entry["inputs"]:
        state.update(it["value"], it["batch_size"])
        texts.append(state.formatted(entry["config"]["precision"]))
        serialized.append(serialize(Aggregated(it["value"], it["batch_size"])))
    assert texts == entry["expected"]["outputs"]["formatted"]
    assert serialized == entry["expected"]["outputs"]["serialized"]
    assert state.formatted(2, "%") == "epoch 2.50 % - batch 4.00 %"


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


def test_numeric_entry(vectors: Vectors) -> None:
    entry = entry_of(vectors, "NumericEntry/derived_serialize")
    expected = entry["expected"]["outputs"]
    assert [serialize(read_entry(it)) for it in entry["inputs"]] == expected["serialized"]
    found = [deserialize(it) for it in expected["serialized"]]
    assert found == [read_entry(it) for it in expected["deserialized"]]
    with pytest.raises(ArgumentError, match="Invalid number of values for numeric entry"):
        deserialize("a,b,c")
    with pytest.raises(ArgumentError, match="expected an entry such as"):
        deserialize("a")


@pytest.mark.parametrize("name", ["aggregate/numeric_entry", "aggregate/HEAD/last_value_for_final"])
def test_aggregate(vectors: Vectors, name: str) -> None:
    entry = entry_of(vectors, name)
    assert aggregate([read_entry(it) for it in entry["inputs"]["entries"]]) == entry["expected"]
    assert aggregate([]) is None


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
    history = FullHistory(entry["config"]["max_samples"], entry["config"]["max_sample_ratio"])
    for split, count in (("train", 100), ("valid", 60)):
        for value in range(count):
            history.push(split, float(value))
    found = {split: [list(point) for point in points] for split, points in history.points.items()}
    assert found == entry["expected"]["outputs"]


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
        lowest.append(history.bounds_y[0])
    expected = entry["expected"]["outputs"]
    assert lowest[2:] == [expected["min_y_after_3"], expected["min_y_after_4"]]


def test_recent_history_with_gaps(vectors: Vectors) -> None:
    entry = entry_of(vectors, "RecentHistory/HEAD/none_values")
    history = RecentHistory(entry["config"]["max_samples"])
    bounds_x, bounds_y = [], []
    for value in entry["inputs"]:
        history.push("train", value)
        bounds_x.append(list(history.bounds_x))
        bounds_y.append(list(history.bounds_y))
    expected = entry["expected"]["outputs"]
    assert bounds_x == expected["bounds_x_after_each"]
    assert bounds_y[2:] == [expected["bounds_y_after_3"], expected["bounds_y_after_4"]]
