"""The live view of a training in a terminal: Board, its layout in rows, and RichRenderer, which draws it."""

import math
import threading
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions
from rich.live import Live
from rich.segment import Segment
from rich.style import Style

from ..._terminal import harmless, one_line
from ..metrics.directions import Directions, low_is_good
from .formats import (
    RATE,
    EpochValue,
    describe,
    format_bytes,
    format_elapsed,
    format_eta,
    format_value,
    is_quality,
    values_of_line,
)
from .plot import FRAME, FullHistory, Piece, RecentHistory, plot
from .renderers import Clock, Renderer, Usage, memory_in_use

if TYPE_CHECKING:
    from ..learner.learner import Learner

MAX_PLOT_ROWS, MIN_PLOT_ROWS, MIN_PLOT_COLUMNS = 14, 6, 36
_POINTS, _RECENT_POINTS = 250, 100
_HEADS = ("", "last", "epoch", "validation", "best")
TITLE, STRONG = -2, -3
"""Owners of pieces beside those of plots."""
REFRESHES_PER_S = 4
_USAGE_S = 1.0
_STYLES = {TITLE: Style(), STRONG: Style(color="cyan", bold=True), FRAME: Style(dim=True)}
_SPLITS = tuple(Style(color=color) for color in ("cyan", "yellow", "magenta", "green", "blue", "red"))


class NumericMetricState:
    """The last value of a metric, and its mean so far, each value weighted by the items that it is of."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.value = math.nan
        self._sum, self._count = 0.0, 0

    def update(self, value: float, count: int) -> None:
        self.value = value
        self._sum += value * count
        self._count += count

    @property
    def running_value(self) -> float:
        """The mean so far; NaN of nothing."""
        return self._sum / self._count if self._count else math.nan


class Board:
    """The latest values and the histories of a training; safe to be drawn by another thread."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.step = self.total_steps = 0
        self.directions: Directions = {}
        # `take` is called by the training, `rows` by the thread that draws.
        self._lock = threading.Lock()
        self._epoch = 0
        self._rate = ""
        self._train: dict[str, NumericMetricState] = {}
        self._measured: dict[str, float | None] = {}
        self._best: dict[str, EpochValue] = {}
        self._last_step = 0
        self._full: dict[str, FullHistory] = {}
        self._recent = RecentHistory(_RECENT_POINTS)
        self._version = 0
        self._drawn: tuple[Any, list[list[Piece]]] | None = None

    def start(self, step: int, total_steps: int) -> None:
        self.step, self.total_steps = step, total_steps
        self._last_step = step
        self.clock.start(step, total_steps)

    def take(self, line: Mapping[str, Any]) -> None:
        with self._lock:
            self._version += 1
            is_train = line["split"] == "train"
            if is_train and line["epoch"] != self._epoch:
                for state in self._train.values():
                    state.reset()
            self._epoch = line["epoch"]
            steps = max(line["step"] - self._last_step, 1)
            for name, value in values_of_line(line).items():
                if value is not None and math.isnan(value):  # of a line in which nothing counted
                    value = None
                if is_train and name.endswith(RATE):
                    self._rate = "" if value is None else f"{value:,.0f} {name.removesuffix(RATE)}/s"
                elif is_train and value is not None:
                    self._train.setdefault(name, NumericMetricState()).update(value, steps)
                elif line["split"] == "valid":
                    self._measured[name] = value
                    best = self._best.get(name)
                    sign = -1 if low_is_good(name, self.directions) else 1
                    if value is not None and (best is None or sign * value > sign * best.value):
                        self._best[name] = EpochValue(self._epoch + 1, value)
                if is_quality(name):
                    self._full.setdefault(name, FullHistory(_POINTS)).push(line["split"], value, line["step"])
            self._recent.push(line["split"], line.get("loss"))
            if is_train:
                self._last_step = line["step"]

    def rows(self, width: int, height: int, usage: Usage) -> list[list[Piece]]:
        """At most `height` rows of at most `width` characters."""
        with self._lock:
            rows = [*self._progress(width, usage), *self._values(width, max(height - 4, 1))]
            left = min(height - len(rows) - 1, MAX_PLOT_ROWS)
            if left >= MIN_PLOT_ROWS and width >= MIN_PLOT_COLUMNS and self._full:
                rows += [[], *self._plots(width, left)]
            return rows[:height]

    def _progress(self, width: int, usage: Usage) -> list[list[Piece]]:
        part = self.step / self.total_steps if self.total_steps else 0.0
        left = self.clock.left(self.step)
        end = f"{part:6.1%}  {'' if left is None else f'{format_eta(left)} left':<12}"
        cells = max(width - len(end) - 1, 0)
        full = int(cells * min(part, 1.0))
        bar: list[Piece] = [("━" * full, STRONG), ("─" * (cells - full), FRAME), (f" {end}"[:width], TITLE)]
        status = [f"step {self.step:,} of {self.total_steps:,}", f"epoch {self._epoch + 1}", self._rate]
        status += [f"{format_elapsed(self.clock.elapsed())} elapsed", f"memory {format_bytes(usage.process)}"]
        if usage.cuda is not None:
            status.append(f"CUDA {format_bytes(usage.cuda)}")
        return [bar, [("  ".join(filter(None, status))[:width], FRAME)]]

    def _values(self, width: int, most: int) -> list[list[Piece]]:
        names = [*dict.fromkeys([*self._train, *self._measured])]
        cells: list[tuple[str, ...]] = [_HEADS]
        for name in names:
            state, best = self._train.get(name), self._best.get(name)
            cells.append(
                (
                    one_line(name),
                    "" if state is None else f"{state.value:.1e}" if name == "lr" else format_value(state.value),
                    "" if state is None or name == "lr" else format_value(state.running_value),
                    format_value(self._measured[name]) if name in self._measured else "",
                    "" if best is None else f"{format_value(best.value)} (epoch {best.epoch})",
                )
            )
        if not names:
            return []
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        texts = ["  ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True))[:width] for row in cells]
        return [[(text, FRAME if place == 0 else TITLE)] for place, text in enumerate(texts[:most])]

    def _plots(self, width: int, height: int) -> list[list[Piece]]:
        key = self._version, width, height
        if self._drawn is None or self._drawn[0] != key:
            drawings = [(name, history.points) for name, history in self._full.items() if history.points]
            if len(drawings) == 1:
                drawings.append((f"loss, last {_RECENT_POINTS} lines", self._recent.points))
            count = max(1, min(len(drawings), (width + 2) // (MIN_PLOT_COLUMNS + 2)))
            each = (width - 2 * (count - 1)) // count
            plots = [plot(name, points, each, height) for name, points in drawings[:count]]
            rows = [[piece for part in row for piece in (("  ", FRAME), *part)][1:] for row in zip(*plots, strict=True)]
            self._drawn = key, rows
        return self._drawn[1]


class RichRenderer(Renderer):
    """Progress, throughput, memory, the latest metrics and plots; lines worth keeping scroll by above.

    Drawn a few times a second by a thread of its own, in the size that the terminal has at that moment.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(soft_wrap=True)
        self._board = Board()
        self._usage: tuple[float, Usage] = (-_USAGE_S, Usage(0, None))
        # What lies below the last row is cropped: a view taller than the terminal could not be drawn over by the next.
        self._live = Live(self, console=self._console, refresh_per_second=REFRESHES_PER_S, vertical_overflow="crop")
        self._is_started = False

    def on_fit_start(self, learner: "Learner[Any]") -> None:
        self._board.directions = learner.directions
        super().on_fit_start(learner)

    def start(self, step: int, total_steps: int) -> None:
        self._board.start(step, total_steps)
        self._is_started = True
        self._live.start()

    def advance(self, step: int) -> None:
        self._board.step = step

    def show(self, metrics: Mapping[str, Any]) -> None:
        self._board.take(metrics)
        if metrics["split"] != "train":
            self.note(describe(metrics, self._board.total_steps))

    def note(self, text: str) -> None:
        self._console.print(harmless(text), markup=False, highlight=False)

    def close(self) -> None:
        if self._is_started:
            self._is_started = False
            self._live.stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[Segment]:
        now = time.monotonic()
        if now - self._usage[0] >= _USAGE_S:
            self._usage = now, memory_in_use()
        width, height = console.size
        rows = self._board.rows(width - 1, height - 1, self._usage[1])
        for row in rows:
            for text, owner in row:
                yield Segment(text, _STYLES.get(owner) or _SPLITS[owner % len(_SPLITS)])
            yield Segment.line()
