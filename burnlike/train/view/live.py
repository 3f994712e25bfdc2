"""RichRenderer: the live view of a training in a terminal."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console, ConsoleOptions
from rich.live import Live
from rich.segment import Segment
from rich.style import Style

from ..._terminal import harmless
from .board import STRONG, TITLE, Board
from .formats import describe
from .plot import FRAME
from .renderers import Renderer, Usage, memory_in_use

REFRESHES_PER_S = 4
_USAGE_S = 1.0
_STYLES = {TITLE: Style(), STRONG: Style(color="cyan", bold=True), FRAME: Style(dim=True)}
_SPLITS = tuple(Style(color=color) for color in ("cyan", "yellow", "magenta", "green", "blue", "red"))


class RichRenderer(Renderer):
    """Progress, throughput, memory, the latest metrics and plots; lines worth keeping scroll by above.

    Drawn a few times a second by a thread of its own, in the size that the terminal has at that moment.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(soft_wrap=True)
        self._board = Board()
        self._usage: tuple[float, Usage] = (-_USAGE_S, Usage(0, None))
        self._live = Live(self, console=self._console, refresh_per_second=REFRESHES_PER_S, vertical_overflow="crop")
        self._is_started = False

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
