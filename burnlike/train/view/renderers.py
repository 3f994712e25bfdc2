"""Shows the progress of a run: a live line in a terminal, plain lines elsewhere."""

import importlib.util
import sys
import time
from collections.abc import Mapping
from typing import Any, Protocol, TextIO

from ..._terminal import harmless


class Renderer(Protocol):
    """Shows the progress of a training."""

    def start(self, step: int, total_steps: int) -> None:
        """Training begins, or goes on, after `step` of `total_steps`."""
        ...

    def advance(self, step: int) -> None:
        """A step was taken."""
        ...

    def show(self, metrics: dict[str, Any]) -> None:
        """A line of metrics was logged."""
        ...

    def note(self, text: str) -> None:
        """Something else worth a line."""
        ...

    def close(self) -> None:
        """Training ended or was stopped; may be called more than once."""
        ...


class PlainRenderer:
    """Lines of text; those of training are at least `interval_s` apart, so that a log stays readable."""

    def __init__(self, stream: TextIO | None = None, interval_s: float = 5.0) -> None:
        self._stream = stream
        self._interval_s = interval_s
        self._shown_at = -float("inf")
        self._total_steps = 0

    def start(self, step: int, total_steps: int) -> None:
        """Note where the end is."""
        self._total_steps = total_steps

    def advance(self, step: int) -> None:
        """Nothing is shown for a single step."""

    def show(self, metrics: dict[str, Any]) -> None:
        """Print a line, unless the last one was just printed."""
        now = time.monotonic()
        if metrics["split"] == "train":
            last = metrics["step"] == self._total_steps
            if now - self._shown_at < self._interval_s and not last:
                return
            self._shown_at = now
        self.note(describe(metrics, self._total_steps))

    def note(self, text: str) -> None:
        """Print it."""
        print(harmless(text), file=self._stream or sys.stdout, flush=True)

    def close(self) -> None:
        """Nothing is held open."""


class RichRenderer:
    """A progress bar with the last metrics; lines worth keeping scroll by above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._console = Console(highlight=False, soft_wrap=True)
        self._progress = Progress(
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[metrics]}"),
            TimeRemainingColumn(),
            console=self._console,
            expand=True,
        )
        self._task = self._progress.add_task("train", total=None, metrics="", visible=False)
        self._total_steps = 0

    def start(self, step: int, total_steps: int) -> None:
        """Show the bar."""
        self._total_steps = total_steps
        self._progress.update(self._task, completed=step, total=total_steps, visible=True)
        self._progress.start()

    def advance(self, step: int) -> None:
        """Move the bar."""
        self._progress.update(self._task, completed=step)

    def show(self, metrics: dict[str, Any]) -> None:
        """Put training metrics beside the bar, others above it."""
        if metrics["split"] == "train":
            shown = "  ".join(describe_value(name, it) for name, it in metrics.items() if name not in _NOT_SHOWN)
            self._progress.update(self._task, metrics=shown)
        else:
            self.note(describe(metrics, self._total_steps))

    def note(self, text: str) -> None:
        """Print it above the bar."""
        self._console.print(harmless(text), markup=False)

    def close(self) -> None:
        """Leave the bar as it is."""
        self._progress.stop()


_NOT_SHOWN = ("step", "epoch", "split", "time")


def describe(metrics: Mapping[str, Any], total_steps: int) -> str:
    """One line of metrics as text."""
    split = {"train": "", "valid": "validation "}.get(metrics["split"], f"{metrics['split']} ")
    values = [describe_value(f"{split}{name}", value) for name, value in metrics.items() if name not in _NOT_SHOWN]
    return "  ".join(
        [f"step {metrics['step']:>{len(str(total_steps))}}/{total_steps}", f"epoch {metrics['epoch'] + 1}", *values]
    )


def describe_value(name: str, value: float) -> str:
    """A metric with its name: rates as a number a second, learning rates with an exponent."""
    if name.endswith("_per_s"):
        return f"{value:,.0f} {name.removesuffix('_per_s')}/s"
    return f"{name} {value:.1e}" if name == "lr" else f"{name} {value:.4f}"


def choose_renderer() -> Renderer:
    """A live one if stdout is a terminal that can move its cursor and rich is installed, else plain lines."""
    if sys.stdout.isatty() and importlib.util.find_spec("rich") is not None:
        from rich.console import Console

        if not Console().is_dumb_terminal:
            return RichRenderer()
    return PlainRenderer()
