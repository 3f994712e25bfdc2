"""The live view of a training in a terminal, from a real run: frames of rich's output, shown one after the other.

Braille dots and lines are drawn, since fonts have them in other widths or not at all.
"""

import html
import io
from collections.abc import Iterable

from rich.console import Console
from rich.segment import Segment

from burnlike.train.view import renderers
from burnlike.train.view.live import RichRenderer

from .recorded import facts, lines
from .svg import MONO

_COLUMNS, _ROWS = 72, 20
_LETTER, _LINE, _MARGIN, _HEAD = 7.0, 16, 16, 34
_FRAMES, _SECONDS = 16, 4.8
_COLORS = {"cyan": "#5cc4ec", "yellow": "#f0c95c", "": "#dfe3e8", "dim": "#939ba6"}
_DOTS = ((0x01, 0, 0), (0x02, 0, 1), (0x04, 0, 2), (0x40, 0, 3), (0x08, 1, 0), (0x10, 1, 1), (0x20, 1, 2), (0x80, 1, 3))
"""The bit of each dot of a braille character, its column and row."""


class Live:
    """The animated picture; it stands still, at its end, for readers who want no motion."""

    def svg(self) -> str:
        frames = _frames()
        width, height = _COLUMNS * _LETTER + 2 * _MARGIN, _HEAD + _ROWS * _LINE + _MARGIN
        part = _SECONDS / len(frames)
        style = [
            f"text{{font-family:{MONO};font-size:{_LETTER / 0.602:.2f}px;white-space:pre}}",
            *(f".{name or 'n'}{{fill:{color}}}" for name, color in _COLORS.items()),
            *(f".p-{name or 'n'}{{stroke:{color};fill:none}}" for name, color in _COLORS.items()),
            ".b{font-weight:700}.ground{fill:#15181d;stroke:#4a515c}",
            ".f{visibility:hidden}@keyframes show{from{visibility:visible}to{visibility:hidden}}",
            "@keyframes come{from{visibility:hidden}to{visibility:visible}}",
            f"@media(prefers-reduced-motion:no-preference){{.f{{animation:show {part:.3f}s step-end}}",
            f".last{{animation:come {_SECONDS - part:.3f}s step-end}}",
            *(f".d{number}{{animation-delay:{number * part:.3f}s}}" for number in range(len(frames) - 1)),
            "}",
        ]
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}"'
            f' viewBox="0 0 {width:.0f} {height}" role="img" aria-labelledby="title">'
            f'<title id="title">The view of a training in a terminal</title><style>{"".join(style)}</style>',
            f'<rect x=".5" y=".5" width="{width - 1:.0f}" height="{height - 1}" rx="10" class="ground"/>',
            f'<text x="{_MARGIN}" y="23" class="dim">$ <tspan class="n">burnlike train digits</tspan></text>',
        ]
        for number, rows in enumerate(frames):
            kind = "last" if number == len(frames) - 1 else "f"
            drawn = [it for place, row in enumerate(rows) for it in _row(row, _HEAD + place * _LINE)]
            parts.append(f'<g class="{kind} d{number}">{"".join(drawn)}</g>')
        return "\n".join([*parts, "</svg>"]) + "\n"


def draw() -> Live:
    return Live()


class _RecordedClock(renderers.Clock):
    now = 0.0

    def elapsed(self) -> float:
        return self.now


def _frames() -> list[list[list[Segment]]]:
    """What rich renders at equal distances of time."""
    known = facts("environment")
    console = Console(file=io.StringIO(), width=_COLUMNS, height=_ROWS, force_terminal=True, color_system="truecolor")
    renderer = RichRenderer(console)
    renderer._usage = (float("inf"), renderers.Usage(known["memory_bytes"], None))
    board, clock = renderer._board, _RecordedClock()
    board.clock = clock
    run = lines()
    first, last = run[0]["time"] - (run[1]["time"] - run[0]["time"]), run[-1]["time"]
    board.start(0, run[-1]["step"])
    frames = []
    for number in range(1, _FRAMES + 1):
        until = first + (last - first) * number / _FRAMES
        while run and run[0]["time"] <= until:
            line = run.pop(0)
            board.step, clock.now = line["step"], line["time"] - first
            board.take(line)
        frames.append(console.render_lines(renderer, pad=False)[:_ROWS])
    return frames


def _row(segments: Iterable[Segment], y: float) -> list[str]:
    """A row of a terminal whose top is at `y`."""
    found, x = [], float(_MARGIN)
    for text, style, _ in segments:
        color = "dim" if style and style.dim else style.color.name if style and style.color else ""
        color = color if color in _COLORS else ""  # the terminal's own
        bold = " b" if style and style.bold else ""
        for kind, piece in _pieces(text):
            if kind == "text" and piece.strip():
                start = x + (len(piece) - len(piece.lstrip())) * _LETTER
                shown = piece.strip()
                place = f'x="{_n(start)}" y="{_n(y + 12)}" textLength="{_n(len(shown) * _LETTER)}"'
                found.append(f'<text {place} class="{color or "n"}{bold}">{html.escape(shown, quote=False)}</text>')
            elif kind == "line":
                stroke = 3 if "━" in piece else 1
                data = (
                    f"M{_n(x + 3.5)} {_n(y)}v{_LINE}"
                    if "│" in piece
                    else f"M{_n(x)} {_n(y + 8)}h{_n(len(piece) * _LETTER)}"
                )
                found.append(f'<path d="{data}" class="p-{color or "n"}" stroke-width="{stroke}"/>')
            elif kind == "dots":
                found.append(f'<path d="{_dots(piece, x, y)}" class="p-{color or "n"}" stroke-width="2.2"/>')
            x += len(piece) * _LETTER
    return found


def _kind(letter: str) -> str:
    return "dots" if "\u2800" <= letter <= "\u28ff" else "line" if letter in "━─│" else "text"


def _pieces(text: str) -> list[tuple[str, str]]:
    """Runs of letters of one kind."""
    found: list[tuple[str, str]] = []
    for letter in text:
        kind = _kind(letter)
        if found and found[-1][0] == kind:
            found[-1] = kind, found[-1][1] + letter
        else:
            found.append((kind, letter))
    return found


def _dots(text: str, x: float, y: float) -> str:
    """Short lines in the place of dots, joined where they are neighbours in a row."""
    dots = sorted(
        (row, 2 * place + column)
        for place, letter in enumerate(text)
        for bit, column, row in _DOTS
        if (ord(letter) - 0x2800) & bit
    )
    runs: list[list[int]] = []
    for row, column in dots:
        if runs and runs[-1][0] == row and runs[-1][2] == column:
            runs[-1][2] += 1
        else:
            runs.append([row, column, column + 1])
    wide = _LETTER / 2
    return "".join(f"M{_n(x + a * wide)} {_n(y + 2 + row * 4)}h{_n((b - a) * wide)}" for row, a, b in runs)


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
