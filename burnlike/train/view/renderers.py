"""Shows the progress of a run as plain lines, or in a live view where there is a terminal (`live.py`)."""

import importlib.util
import io
import os
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from ..._terminal import harmless
from .callback import Callback
from .formats import describe, format_elapsed, format_eta

if TYPE_CHECKING:
    from ..learner.learner import Learner


class Clock:
    """Measures from the start of this process's part of a run."""

    def __init__(self) -> None:
        self.start(0, 0)

    def start(self, step: int, total_steps: int) -> None:
        """Begin after `step` of `total_steps` steps."""
        self._first, self._total = step, total_steps
        self._started_at = time.monotonic()

    def elapsed(self) -> float:
        return time.monotonic() - self._started_at

    def left(self, step: int) -> float | None:
        """Seconds until the end at the mean speed so far, validation included; None before the first step."""
        done = step - self._first
        return self.elapsed() / done * (self._total - step) if done > 0 else None


class Usage(NamedTuple):
    """Bytes of memory; None for CUDA where it is not in use."""

    process: int
    cuda: int | None


def memory_in_use() -> Usage:
    """The resident memory of the process, and what torch holds of the CUDA device."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            process = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        process = 0
    torch = sys.modules.get("torch")  # where a program has not loaded it, nothing of it is in use
    used = torch is not None and torch.cuda.is_initialized()
    return Usage(process, torch.cuda.memory_reserved() if torch is not None and used else None)


class Renderer(Callback):
    """A callback that shows the progress of a training, by methods that a program can call without a learner, too."""

    def start(self, step: int, total_steps: int) -> None:
        """Training begins, or goes on, after `step` of `total_steps`."""

    def advance(self, step: int) -> None:
        """A step was taken."""

    def show(self, metrics: Mapping[str, Any]) -> None:
        """A line of metrics was logged."""

    def note(self, text: str) -> None:
        """Something else worth a line."""

    def close(self) -> None:
        """Training ended or was stopped; may be called more than once."""

    def on_fit_start(self, learner: "Learner[Any]") -> None:
        self.start(learner.step, learner.total_steps)

    def on_step_end(self, learner: "Learner[Any]") -> None:
        self.advance(learner.step)

    def on_metrics(self, learner: "Learner[Any]", line: Mapping[str, Any]) -> None:
        self.show(line)

    def on_note(self, learner: "Learner[Any]", text: str) -> None:
        self.note(text)

    def on_fit_end(self, learner: "Learner[Any]") -> None:
        self.close()

    def on_exception(self, learner: "Learner[Any]", error: BaseException) -> None:
        self.close()


class PlainRenderer(Renderer):
    """Lines of text with the metrics, the time that has gone and the time left.

    Those of training are at least `interval_s` apart, so that a log stays readable.
    """

    def __init__(self, stream: TextIO | None = None, interval_s: float = 5.0) -> None:
        self._stream = stream
        self._interval_s = interval_s
        self._shown_at = -float("inf")
        self._total_steps = 0
        self._clock = Clock()

    def start(self, step: int, total_steps: int) -> None:
        self._total_steps = total_steps
        self._clock.start(step, total_steps)

    def show(self, metrics: Mapping[str, Any]) -> None:
        now = time.monotonic()
        if metrics["split"] == "train":
            last = metrics["step"] == self._total_steps
            if now - self._shown_at < self._interval_s and not last:
                return
            self._shown_at = now
        left = self._clock.left(metrics["step"])
        times = f"{format_elapsed(self._clock.elapsed())} elapsed" + (f"  {format_eta(left)} left" if left else "")
        self.note(f"{describe(metrics, self._total_steps)}  {times}")

    def note(self, text: str) -> None:
        print(harmless(text), file=self._stream or sys.stdout, flush=True)


def renderer_of(renderer: Renderer | None, is_main: bool) -> Renderer:
    """The renderer, or plain lines without one; one that shows nothing in a process that leaves this to another."""
    return (renderer or PlainRenderer()) if is_main else PlainRenderer(io.StringIO())


def choose_renderer() -> Renderer:
    """A live one if stdout is a terminal that can move its cursor and rich is installed, else plain lines."""
    if sys.stdout.isatty() and importlib.util.find_spec("rich") is not None:
        from rich.console import Console

        if not Console().is_dumb_terminal:
            from .live import RichRenderer

            return RichRenderer()
    return PlainRenderer()
