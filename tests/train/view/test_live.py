"""Renderers and the live view: what terminals of several sizes show, beside Burn's own numbers."""

import builtins
import io
import json
import math
import mmap
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from burnlike.errors import RunDirError
from burnlike.train import LearnerSummary, PlainRenderer, RichRenderer, TrainingConfig, choose_renderer
from burnlike.train.metrics import HammingConfig, MapeConfig
from burnlike.train.view.formats import format_eta
from burnlike.train.view.live import Board, NumericMetricState
from burnlike.train.view.plot import FullHistory, RecentHistory, plot
from burnlike.train.view.renderers import Usage, memory_in_use


def train_line(step: int, **more: Any) -> dict[str, Any]:
    return {"step": step, "epoch": (step - 1) // 100, "split": "train", "loss": 100 / step, "lr": 1e-3, **more}


def valid_line(step: int, **more: Any) -> dict[str, Any]:
    return {"step": step, "epoch": step // 100 - 1, "split": "valid", "loss": 1 + 50 / step, **more}


def board_of_a_run() -> Board:
    board = Board()
    board.start(0, 300)
    for step in range(10, 210, 10):
        board.step = step
        board.take(train_line(step, tokens_per_s=1234.5))
        if step % 100 == 0:
            board.take(valid_line(step, accuracy=step / 4))
    return board


def text_of(board: Board, width: int, height: int) -> list[str]:
    rows = board.rows(width, height, Usage(2_500_000_000, 1_500_000_000))
    return ["".join(text for text, _ in row) for row in rows]


@pytest.mark.parametrize("size", [(79, 23), (200, 60), (40, 10), (20, 3), (5, 1), (1, 1)])
def test_it_fits_into_the_terminal(size: tuple[int, int]) -> None:
    width, height = size
    rows = text_of(board_of_a_run(), width, height)
    assert 0 < len(rows) <= height
    assert max(map(len, rows)) <= width


def test_80_by_24_shows_everything() -> None:
    rows = text_of(board_of_a_run(), 79, 23)
    assert " 66.7%" in rows[0]
    assert rows[0].rstrip().endswith("left")
    assert rows[1] == "step 200 of 300  epoch 2  1,234 tokens/s  0:00 elapsed  memory 2.5 GB  CUDA 1.5 GB"[:79]
    table = [row.split() for row in rows[2:6]]
    assert table[0] == ["last", "epoch", "validation", "best"]
    mean = sum(100 / step for step in range(110, 210, 10)) / 10
    assert table[1] == ["loss", "0.5000", f"{mean:.4f}", "1.2500", "1.2500", "(epoch", "2)"]
    assert table[2] == ["lr", "1.0e-03"]
    assert table[3] == ["accuracy", "50", "50", "(epoch", "2)"]
    assert rows[7].split() == ["loss", "━", "train", "━", "valid", "accuracy", "━", "valid"]


def test_the_mean_of_an_epoch_is_weighted_by_steps() -> None:
    board = Board()
    board.start(0, 100)
    board.take({"step": 10, "epoch": 0, "split": "train", "loss": 4.0})
    board.take({"step": 40, "epoch": 0, "split": "train", "loss": 2.0})
    (row,) = [row for row in text_of(board, 79, 23) if row.startswith("loss") and "━" not in row]
    assert row.split() == ["loss", "2.0000", "2.5000"]


def test_the_best_is_as_the_learner_says() -> None:
    renderer = RichRenderer(Console(file=io.StringIO()))
    metrics: Any = {"hamming_loss": MapeConfig, "answer": MapeConfig, "mine": HammingConfig}
    learner: Any = SimpleNamespace(step=0, total_steps=2, directions=TrainingConfig().directions(metrics))
    renderer.on_fit_start(learner)
    for step in (1, 2):
        renderer.show({"step": step, "epoch": step - 1, "split": "valid", "answer": step, "mine": step})
    rows = [row.split() for row in text_of(renderer._board, 79, 23)]
    renderer.close()
    assert ["answer", "2.0000", "1.0000", "(epoch", "1)"] in rows
    assert ["mine", "2.0000", "2.0000", "(epoch", "2)"] in rows


def test_names_of_metrics_cannot_control_the_terminal() -> None:
    board = Board()
    board.start(0, 10)
    board.take({"step": 1, "epoch": 0, "split": "train", "loss": 1.0, "bad\x1b[2J\nname": 2.0})
    board.take({"step": 1, "epoch": 0, "split": "x\x1b[2J\n", "loss": 1.0})
    assert all(text.isprintable() for row in board.rows(120, 40, Usage(0, None)) for text, _ in row)


def test_plots_go_through_their_points() -> None:
    rows = plot("m", {"train": [(0, 0.0), (10, 1.0)]}, 30, 6)
    drawn = ["".join(text for text, _ in row) for row in rows]
    assert [len(row) for row in drawn] == [30] * 6
    assert drawn[1][-1] != " "  # the last value, at the upper right
    assert drawn[4][10] != " "  # the first one, at the lower left
    assert drawn[1][10] == " "
    assert drawn[1].startswith("  1.0000 │")
    assert drawn[4].startswith("       0 │")
    assert drawn[5].split() == ["0", "10"]


@pytest.mark.parametrize("values", [[1.0], [2.0, 2.0], [0.0], [-1e300, 1e300], [1e-300, 2e-300], [math.pi] * 3])
def test_plots_of_any_values_keep_their_size(values: list[float]) -> None:
    rows = plot("m", {"valid": [*enumerate(values)]}, 40, 8)
    assert [sum(len(text) for text, _ in row) for row in rows] == [40] * 8


def test_a_split_has_one_color_in_all_plots() -> None:
    points = [(0.0, 1.0), (1.0, 2.0)]
    owners = [{owner for row in plot("m", splits, 40, 8) for _, owner in row} for splits in (
        {"valid": points}, {"train": points, "valid": points}, {"test": points}
    )]  # fmt: skip
    assert owners == [{-1, 1}, {-1, 0, 1}, {-1, 2}]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_notes_and_validations_scroll_by_above() -> None:
    stream = Terminal()
    renderer = RichRenderer(Console(file=stream, force_terminal=True, width=80, height=24))
    renderer.start(0, 300)
    renderer.advance(100)
    renderer.show(train_line(100))
    renderer.show(valid_line(100))
    renderer.note("x[bold] = 1")
    renderer.close()
    renderer.close()
    text = stream.getvalue()
    assert "step 100/300  epoch 1  validation loss 1.5000" in text
    assert "x[bold] = 1" in text
    assert " 33.3%" in text.rpartition("x[bold]")[2]  # the view stays below


def test_the_memory_of_this_process() -> None:
    usage = memory_in_use()
    assert 10_000_000 < usage.process < 1e12
    with mmap.mmap(-1, 50_000_000) as block:  # of the system, not of what the process has freed before
        for start in range(0, len(block), mmap.PAGESIZE):
            block[start] = 1
        assert memory_in_use().process >= usage.process + 25_000_000


TRAIN = {"step": 5, "epoch": 0, "split": "train", "loss": 1.25, "lr": 3e-4, "tokens_per_s": 12345.6}
VALID = {"step": 50, "epoch": 1, "split": "valid", "loss": 0.5}


def lines_of(interval_s: float, shown: list[dict[str, Any]]) -> list[str]:
    stream = io.StringIO()
    renderer = PlainRenderer(stream, interval_s)
    renderer.start(0, 100)
    for step, metrics in enumerate(shown):
        renderer.advance(step)
        renderer.show(metrics)
    renderer.note("done")
    renderer.close()
    return stream.getvalue().splitlines()


def test_plain_lines_hold_the_metrics_and_the_times(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 0.0, *[10.0] * 100])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    assert lines_of(0, [TRAIN, VALID]) == [
        "step   5/100  epoch 1  loss 1.2500  lr 3.0e-04  12,346 tokens/s  0:10 elapsed  3 mins left",
        "step  50/100  epoch 2  validation loss 0.5000  0:10 elapsed  10 secs left",
        "done",
    ]


def test_plain_lines_of_training_keep_their_distance_but_the_last_one_and_validation_are_shown() -> None:
    last = {**TRAIN, "step": 100}
    shown = lines_of(1000, [TRAIN, TRAIN, VALID, TRAIN, last])
    assert [line.split()[1] for line in shown[:-1]] == ["5/100", "50/100", "100/100"]


def test_without_a_terminal_lines_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert isinstance(choose_renderer(), PlainRenderer)


def test_a_terminal_gets_the_bar_unless_it_is_dumb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(choose_renderer(), RichRenderer)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(choose_renderer(), PlainRenderer)


def test_without_rich_a_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def no_rich(name: str, *arguments: Any, **options: Any) -> Any:
        if name.partition(".")[0] == "rich":
            raise ModuleNotFoundError(name)
        return real_import(name, *arguments, **options)

    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setattr(builtins, "__import__", no_rich)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert isinstance(choose_renderer(), PlainRenderer)


def test_text_with_brackets_is_printed_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    renderer = RichRenderer()
    renderer.note("sample: x[bold] = y[0]")
    renderer.close()
    renderer.close()
    assert "sample: x[bold] = y[0]" in stream.getvalue()


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


def rendered_lines(values_per_epoch: list[list[float]], split: str) -> list[dict[str, Any]]:
    """Lines of metrics with one step each."""
    numbered = [(epoch, value) for epoch, values in enumerate(values_per_epoch) for value in values]
    return [
        {"step": step, "epoch": epoch, "split": split, "loss": value}
        for step, (epoch, value) in enumerate(numbered, start=1)
    ]


def test_the_best_epoch(vectors: Vectors) -> None:
    entry = entry_of(vectors, "aggregate/find_epoch")
    lines = rendered_lines(entry["inputs"]["values_per_epoch"], "train")
    (loss,) = LearnerSummary.of(lines).metrics
    assert loss.lowest.epoch == loss.best.epoch == entry["expected"]


def test_the_summary_of_a_run(vectors: Vectors, tmp_path: Path) -> None:
    entry = entry_of(vectors, "LearnerSummary/collected")
    files = {
        split: [float(it) for it in entry["inputs"]["files"][f"{split}/epoch-1/Loss.log"].split()]
        for split in ("train", "valid")
    }
    lines = [line for split, values in files.items() for line in rendered_lines([values], split)]
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
