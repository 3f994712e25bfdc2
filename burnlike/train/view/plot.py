"""Plots in a terminal: lines of braille dots, and the few points of a history that grows."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from ..._terminal import one_line
from .formats import format_value

Point = tuple[float, float]


class FullHistory:
    """All of a history in at most `max_samples` points of each split: when they are more, every other one is dropped.

    Splits share the x axis: each value of any of them is one further on.
    """

    def __init__(self, max_samples: int) -> None:
        self.next_x = 0
        self._max_samples = max_samples
        self._splits: dict[str, _Thinned] = {}

    def push(self, split: str, value: float | None, x: float | None = None) -> None:
        """Add a value at `x`, by default one further than the last; None leaves a gap."""
        place, self.next_x = self.next_x, self.next_x + 1
        if value is not None:
            self._splits.setdefault(split, _Thinned(self._max_samples)).push(place, (place if x is None else x, value))

    @property
    def points(self) -> dict[str, list[Point]]:
        return {split: it.points for split, it in self._splits.items()}


class _Thinned:
    """Points whose number is a multiple of a step that doubles when they are too many."""

    def __init__(self, most: int) -> None:
        self.points: list[Point] = []
        self._most = most
        self._step = 1

    def push(self, number: int, point: Point) -> None:
        if number % self._step:
            return
        self.points.append(point)
        # Every other one goes, so that what stays is as far apart as what comes from now on.
        if len(self.points) > self._most:
            self.points = self.points[::2]
            self._step *= 2


class RecentHistory:
    """The points of the last `max_samples` values of all splits together."""

    def __init__(self, max_samples: int) -> None:
        self.next_x = 0
        self._max_samples = max_samples
        self._points: dict[str, list[Point]] = {}

    def push(self, split: str, value: float | None) -> None:
        """Add a value; None leaves a gap."""
        x, self.next_x = self.next_x, self.next_x + 1
        if value is not None:
            self._points.setdefault(split, []).append((x, value))
        first = x - self._max_samples
        for name, points in self._points.items():
            if points[0][0] < first:
                self._points[name] = [point for point in points if point[0] >= first]

    @property
    def points(self) -> dict[str, list[Point]]:
        return {split: points for split, points in self._points.items() if points}


_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of each dot of a braille character, by row and column."""
_BRAILLE = 0x2800
_LABEL = 8
"""Characters of the labels at the left."""

Piece = tuple[str, int]
"""Text and what it belongs to: the number of a split, or -1 for the frame."""
FRAME = -1


class Bounds(NamedTuple):
    """The range of a plot."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float

    @classmethod
    def around(cls, splits: Sequence[Sequence[Point]]) -> "Bounds":
        """The smallest that hold all points; never empty."""
        places = [point for points in splits for point in points]
        xs, ys = [x for x, _ in places] or [0.0], [y for _, y in places] or [0.0]
        low, high = min(ys), max(ys)
        if low == high:
            low, high = low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2
        return cls(min(xs), max(max(xs), min(xs) + 1), low, high)


def plot(title: str, splits: Mapping[str, Sequence[Point]], width: int, height: int) -> list[list[Piece]]:
    """Draw lines through the points of each split, in the order of their x; a later split over an earlier one.

    A split has the same number in all plots: 0 is training, 1 is validation. Gives `height` rows of pieces, each row
    `width` characters wide: title with the names of the splits, lines, x axis.
    """
    columns, rows = max(width - _LABEL - 2, 1), max(height - 2, 1)
    bounds = Bounds.around([*splits.values()])
    cells: dict[tuple[int, int], tuple[int, int]] = {}
    fixed = {"train": 0, "valid": 1}
    others = [name for name in splits if name not in fixed]
    numbers = [fixed[name] if name in fixed else len(fixed) + others.index(name) for name in splits]
    for number, points in zip(numbers, splits.values(), strict=True):
        for column, row in _dots(points, bounds, columns * 2, rows * 4):
            place = row // 4, column // 2
            bits, owner = cells.get(place, (0, number))
            bits = bits if owner == number else 0
            cells[place] = bits | _DOTS[row % 4][column % 2], number
    names = [(f"━ {one_line(name)}  ", number) for name, number in zip(splits, numbers, strict=True)]
    heads: list[Piece] = []
    left = width
    for text, owner in [(f"{one_line(title)}  ", FRAME), *names]:
        heads.append((text[:left], owner))
        left -= len(heads[-1][0])
    lines = [[*heads, (" " * left, FRAME)]]
    for row in range(rows):
        label = {0: format_value(bounds.y_high), rows - 1: format_value(bounds.y_low)}.get(row, "")
        pieces: list[Piece] = [(f"{label[:_LABEL]:>{_LABEL}} │", FRAME)]
        for column in range(columns):
            bits, owner = cells.get((row, column), (0, FRAME))
            text = chr(_BRAILLE + bits) if bits else " "
            if pieces[-1][1] == owner and column:
                pieces[-1] = pieces[-1][0] + text, owner
            else:
                pieces.append((text, owner))
        lines.append(pieces)
    low, high = f"{bounds.x_low:,.0f}", f"{bounds.x_high:,.0f}"
    axis = f"{'':{_LABEL + 2}}{low}{high:>{max(columns - len(low), 0)}}"
    return [*lines, [(f"{axis[:width]:<{width}}", FRAME)]]


def _dots(points: Sequence[Point], bounds: Bounds, columns: int, rows: int) -> set[tuple[int, int]]:
    """The dots of a line through the points, from the upper left."""
    x_scale = (columns - 1) / (bounds.x_high - bounds.x_low)
    y_scale = (rows - 1) / (bounds.y_high - bounds.y_low)
    if not math.isfinite(y_scale) or not math.isfinite(x_scale):
        return set()
    places = [(round((x - bounds.x_low) * x_scale), rows - 1 - round((y - bounds.y_low) * y_scale)) for x, y in points]
    dots = set(places)
    for (x_from, y_from), (x_to, y_to) in pairwise(places):
        steps = max(abs(x_to - x_from), abs(y_to - y_from))
        for step in range(1, steps):
            part = step / steps
            dots.add((round(x_from + (x_to - x_from) * part), round(y_from + (y_to - y_from) * part)))
    return dots
