"""The live view: what it shows in terminals of several sizes."""

import io
import math
import mmap
from typing import Any

import pytest
from rich.console import Console

from burnlike.train import RichRenderer
from burnlike.train.view.live import Board
from burnlike.train.view.plot import plot
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
