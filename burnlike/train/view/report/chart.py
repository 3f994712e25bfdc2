"""Charts of a report: HTML in which text can only be text, metrics as curves of few points, an SVG with axes."""

import html
import math
import sys
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from ...._terminal import harmless
from ...metrics.directions import low_is_good
from ...runs.run_files import RunFiles
from ..formats import RATE, format_value, is_quality, values_of_line

_EMPTY = ("meta", "img", "path", "line")
"""Elements without content."""


_MOST_ROWS = 1_000
"""Of a table."""
MOST_POINTS = 400
_SMOOTH_FROM = 60
"""Points from which a noisy curve is also drawn smoothed."""

Points = list[tuple[float, float]]


class Html(str):
    """Finished HTML; any other string is text and is escaped."""

    __slots__ = ()


def tag(name: str, /, *content: object, **attributes: object) -> Html:
    """An element with Html, or what is shown as text; with attributes, `_` for `-` in their names. None is left out.

    Example:
        >>> tag("p", "a < b", tag("b", 1), class_="x")
        '<p class="x">a &lt; b<b>1</b></p>'
    """
    pairs = [(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items() if value is not None]
    head = " ".join([name, *(f'{key}="{escaped(value)}"' for key, value in pairs)])
    if name in _EMPTY:
        return Html(f"<{head}/>")
    return Html(f"<{head}>{joined_html(content)}</{name}>")


def joined_html(content: object) -> Html:
    pieces = content if isinstance(content, list | tuple) else [content]
    return Html("".join(piece if isinstance(piece, Html) else escaped(piece) for piece in pieces if piece is not None))


def escaped(value: object) -> str:
    """Text for HTML; codes that change the order or the look of other text are shown as codes."""
    return html.escape(harmless(str(value)), quote=True)


def grid(heads: "list[object]", rows: "list[list[object]]", **attributes: object) -> Html:
    """A table in a box that scrolls where it is too wide."""
    head = tag("tr", *(tag("th", it, scope="col") for it in heads))
    left_out = len(rows) - _MOST_ROWS
    body = [
        tag("tr", *(it if isinstance(it, Html) and it.startswith("<td") else tag("td", it) for it in row))
        for row in rows[:_MOST_ROWS]
    ]
    body += [tag("tr", tag("td", f"... and {left_out:,} more", colspan=len(heads)))] if left_out > 0 else []
    return tag("div", tag("table", tag("thead", head), tag("tbody", *body), **attributes), class_="scroll")


class Series(NamedTuple):
    """A curve: its points are step and value, `smooth` their moving average or empty; its run's place among all."""

    run: int
    split: str
    points: Points
    smooth: Points


class Curves(NamedTuple):
    """A metric with its curves; `may_be_log`: small values of it, the good ones, are worth telling apart."""

    name: str
    series: list[Series]
    may_be_log: bool

    @property
    def title(self) -> str:
        if self.name.endswith(RATE):
            return "throughput"
        return "learning rate" if self.name == "lr" else self.name.replace("_", " ")

    @property
    def unit(self) -> str:
        return f"{self.name.removesuffix(RATE)}/s" if self.is_rate else ""

    @property
    def is_rate(self) -> bool:
        return self.name.endswith(RATE)

    @property
    def has_splits(self) -> bool:
        return len({it.split for it in self.series}) > 1


def curves_of(runs: list[RunFiles]) -> list[Curves]:
    """The curves of all metrics: the loss first, then other qualities, then the rest; training before others."""
    by_metric: dict[str, dict[tuple[int, str], Points]] = {}
    for place, run in enumerate(runs):
        for line in run.lines:
            for name, value in values_of_line(line).items():
                if value is not None:
                    points = by_metric.setdefault(name, {}).setdefault((place, line["split"]), [])
                    points.append((line["step"], value))
    names = sorted(by_metric, key=lambda name: (name != "loss", not is_quality(name), name != "lr"))
    directions = [run.directions for run in runs]
    curves = []
    for name in names:
        series = []
        for (run, split), points in by_metric[name].items():
            ordered = sorted(points, key=lambda point: point[0])
            is_noisy = split == "train" and name != "lr" and len(ordered) >= _SMOOTH_FROM
            series.append(Series(run, split, thinned(ordered), thinned(_averaged(ordered)) if is_noisy else []))
        series.sort(key=lambda it: (it.run, {"train": 0, "valid": 1}.get(it.split, 2), it.split))
        curves.append(Curves(name, series, low_is_good(name, directions[series[0].run])))
    return curves


def thinned(points: Points, most: int = MOST_POINTS) -> Points:
    """At most `most` of the points: both ends, and the smallest and largest value of each stretch."""
    if len(points) <= most:
        return points
    count = (most - 2) // 2
    # Extremes, not every n-th point: a single peak, such as a loss that leapt, has to stay visible.
    kept = {0, len(points) - 1}
    for number in range(count):
        stretch = range(len(points) * number // count, len(points) * (number + 1) // count)
        kept |= {min(stretch, key=lambda place: points[place][1]), max(stretch, key=lambda place: points[place][1])}
    return [points[place] for place in sorted(kept)]


def _averaged(points: Points) -> Points:
    """The mean of each point and its neighbours, about a thirtieth of the curve.

    At the steep start there are as many on each side; at the end all that are left.
    """
    sums = [0.0, *accumulate(value for _, value in points)]
    reach = max(len(points) // 60, 2)
    means = []
    for place, (x, _) in enumerate(points):
        low, high = place - min(reach, place), min(place + min(reach, place) + 1, len(points))
        means.append((x, (sums[high] - sums[low]) / (high - low)))
    return means


_LOG_RATIO = 50
"""From which ratio of the largest value to the smallest a logarithm shows more."""

_LARGEST = sys.float_info.max


class Axis(NamedTuple):
    """The range of an axis."""

    low: float
    high: float
    is_log: bool = False

    def place(self, value: float) -> float:
        """The place of a value: 0 at the low end, 1 at the high end."""
        low, high = self._scaled(self.low), self._scaled(self.high)
        return min(max((self._scaled(value) - low) / (high - low), 0.0), 1.0)

    def _scaled(self, value: float) -> float:
        if self.is_log:
            return math.log10(max(value, self.low))
        return value / max(abs(self.low), abs(self.high), 1e-300)  # differences of huge values stay finite

    def ticks(self, most: int = 5) -> list[float]:
        low, high = self.low, self.high
        if self.is_log:
            first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
            every = max(1, -(-(last - first) // (most + 1)))
            factors = (1, 2, 5) if last - first <= 2 else (1,)
            marks = [factor * 10.0**power for power in range(first, last + 1, every) for factor in factors]
            marks = [mark for mark in marks if low <= mark <= high]
            if len(marks) > 1:
                return marks
        span = high / most - low / most  # not (high - low) / most, which overflows for values near the largest float
        if not 0 < span < math.inf:
            return [low]
        power = 10.0 ** math.floor(math.log10(span))
        step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= span * (1 - 1e-9))
        # A tick at an end of the range stays, wherever rounding puts it.
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        return [number * step for number in range(first, last + 1)] if last - first <= 2 * most else [low, high]

    def label(self, value: float) -> str:
        """A tick as text, with the digits that tell it from its neighbours."""
        if value == 0:
            return "0"
        size = abs(value)
        if size >= 1e15 or size < 1e-3:
            digits, exponent = f"{value:.2e}".split("e")
            return f"{digits.rstrip('0').rstrip('.')}e{int(exponent)}"
        for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
            if size >= unit:
                return f"{value / unit:.6g}{name}"
        return f"{value:.6g}"


def value_axis(values: Sequence[float], *, may_be_log: bool, from_zero: bool) -> Axis:
    """The axis of the values of a chart, at least one; a logarithm may be used where they span a large ratio."""
    low, high = min(values), max(values)
    if may_be_log and low > 0 and high / low >= _LOG_RATIO:
        margin = (high / low) ** 0.04
        return Axis(low / margin, min(high * margin, _LARGEST), True)
    if from_zero and low >= 0:
        return Axis(0.0, min(high * 1.05, _LARGEST) or 1.0)
    margin = high / 2 - low / 2
    margin = margin * 0.1 if margin > 0 else abs(high) * 0.05 or 0.5
    return Axis(max(low - margin, -_LARGEST), min(high + margin, _LARGEST))


_SIZE = 1000
"""Of the drawing's own coordinates, whatever its size on the screen."""
_LABEL_DISTANCE = 0.085
"""Of the labels at the ends of curves, as a part of the height."""
_MOST_LABELS = 8
COLORS = 8


class Names(NamedTuple):
    """Names and colours of curves: by their split where there is one run, else by their run."""

    runs: list[str]

    @property
    def is_single(self) -> bool:
        return len(self.runs) == 1

    def label(self, series: Series) -> str:
        """The name at the end of a curve: what tells it from the others."""
        if self.is_single:
            return split_name(series.split)
        return self.differing[series.run]

    @property
    def differing(self) -> list[str]:
        """The part of each run's name that tells it from the others.

        Example:
            >>> Names(["lr=1e-3,beta=0,seed=1", "lr=1e-3,beta=0.9,seed=1", "lr=1e-3,beta=0,seed=2"]).differing
            ['0, 1', '0.9, 1', '0, 2']
            >>> Names(["seed=1,training=epochs_1", "seed=2,training=epochs_20"]).differing
            ['1, 1', '2, 20']
            >>> Names(["seed=1", "seed=1"]).differing  # of two sweeps
            ['seed=1', 'seed=1']
        """
        parts = [[part.partition("=") for part in name.split(",")] for name in self.runs]
        swept = [{key: value for key, _, value in fields} for fields in parts]
        if all("=" in name and [*values] == [*swept[0]] for name, values in zip(self.runs, swept, strict=True)):
            columns = [[values[key] for values in swept] for key in swept[0]]
            differing = [_without_common_start(column, "_/") for column in columns if len({*column}) > 1]
            return [", ".join(it) for it in zip(*differing, strict=True)] or self.runs
        return _without_common_start(self.runs, "-_/ ,=")

    def long_label(self, series: Series, curves: Curves) -> str:
        label = self.label(series)
        return label if self.is_single or not curves.has_splits else f"{label}, {split_name(series.split)}"

    def color(self, series: Series) -> int:
        if not self.is_single:
            return series.run % COLORS
        fixed = {"train": 0, "valid": 1}
        return fixed.get(series.split, 2 + sum(map(ord, series.split)) % (COLORS - 2))


def _without_common_start(names: list[str], signs: str) -> list[str]:
    """The names without what they have in common up to the last of the signs."""
    same = next((place for place, it in enumerate(zip(*names, strict=False)) if len({*it}) > 1), 0)
    starts = [max(name.rfind(sign, 0, same) for sign in signs) + 1 for name in names]
    return [name[start:] for name, start in zip(names, starts, strict=True)]


def split_name(split: str) -> str:
    return {"train": "training", "valid": "validation"}.get(split, split)


def chart(curves: Curves, names: Names, steps: Axis, number: int) -> Html:
    """The chart of a metric; all share the x axis, and the script finds the data by its number."""
    axis = axis_of(curves)
    is_smooth = any(it.smooth for it in curves.series)
    kind = [curves.unit, "log scale" if axis.is_log else "", "smoothed" if is_smooth else ""]
    lines = [tag("line", x1=0, x2=_SIZE, y1=_y(axis, tick), y2=_y(axis, tick), class_="rule") for tick in axis.ticks()]
    measured = {it.run for it in curves.series if it.split != "train"}
    drawn: list[Html] = []
    for series in curves.series:
        is_second = series.run in measured and not names.is_single and series.split == "train"
        color, second = f"c{names.color(series)}", " second" * is_second
        few = " few" * (len(series.points) < 2 and not series.smooth)
        if series.smooth:
            drawn.append(_path(series.points, steps, axis, f"curve raw {color}"))
        drawn.append(_path(series.smooth or series.points, steps, axis, f"curve {color}{second}{few}"))
    ends = [f"{names.long_label(it, curves)}: {format_value(it.points[-1][1])}" for it in curves.series]
    described = f"{curves.title} over the steps; last values: {', '.join(ends)}"
    image = tag(
        "svg", *lines, *drawn,
        viewBox=f"0 0 {_SIZE} {_SIZE}", preserveAspectRatio="none", role="img", aria_label=described
    )  # fmt: skip
    y_labels = [tag("span", axis.label(tick), style=f"top:{1 - axis.place(tick):.2%}") for tick in axis.ticks()]
    x_labels = [tag("span", steps.label(tick), style=f"left:{steps.place(tick):.2%}") for tick in steps.ticks(4)]
    return tag(
        "figure",
        tag("figcaption", tag("b", curves.title), tag("span", ", ".join(filter(None, kind)), class_="kind")),
        tag(
            "div",
            tag("div", *y_labels, class_="y"),
            tag("div", image, *_ends(curves, names, axis), class_="area"),
            tag("span", "step", class_="steps"),
            tag("div", *x_labels, class_="x"),
            class_="frame",
        ),
        class_="chart",
        data_chart=number,
    )


def chart_data(curves: Curves, names: Names) -> dict[str, Any]:
    axis = axis_of(curves)
    series: list[dict[str, Any]] = []
    for curve in curves.series:
        points = [[x, y, 1 - axis.place(y), format_value(y)] for x, y in curve.points]
        series.append({"name": names.long_label(curve, curves), "color": names.color(curve), "points": points})
    return {"series": series}


def axis_of(curves: Curves) -> Axis:
    values = [value for series in curves.series for _, value in series.points]
    return value_axis(values, may_be_log=curves.may_be_log, from_zero=curves.is_rate)


def _path(points: Points, steps: Axis, axis: Axis, classes: str) -> Html:
    places = [f"{steps.place(x) * _SIZE:.1f} {_y(axis, value)}" for x, value in points]
    start, *others = places
    return tag("path", d=f"M{start}L{' '.join(others or [start])}", class_=classes)


def _y(axis: Axis, value: float) -> str:
    return f"{(1 - axis.place(value)) * _SIZE:.1f}"


def _ends(curves: Curves, names: Names, axis: Axis) -> list[Html]:
    """The names of the curves at their right ends, moved apart where they would overlap."""
    last = {(series.run if not names.is_single else series.split): series for series in curves.series}
    if len(last) > _MOST_LABELS:
        return []
    wanted = sorted(
        (1 - axis.place((it.smooth or it.points)[-1][1]), names.label(it), names.color(it)) for it in last.values()
    )
    tops: list[float] = []
    for top, _, _ in wanted:
        tops.append(max(top, tops[-1] + _LABEL_DISTANCE) if tops else top)
    over = max(0.0, tops[-1] - 1) if tops else 0.0
    for place in reversed(range(len(tops))):
        limit = 1.0 if place == len(tops) - 1 else tops[place + 1] - _LABEL_DISTANCE
        tops[place] = min(tops[place], limit) if over else tops[place]
    return [
        tag("span", tag("i", class_=f"dot b{color}"), text, class_="end", style=f"top:{top:.2%}", title=text)
        for top, (_, text, color) in zip(tops, wanted, strict=True)
    ]
