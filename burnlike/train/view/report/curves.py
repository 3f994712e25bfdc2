"""Curves: the metrics of runs as series of points, few enough to draw."""

from itertools import accumulate
from typing import NamedTuple

from ...runs.run_files import RunFiles
from ..formats import RATE, is_quality, lower_is_better, values_of_line

MOST_POINTS = 400
_SMOOTH_FROM = 60
"""Points from which a noisy curve is also drawn smoothed."""

Points = list[tuple[float, float]]


class Series(NamedTuple):
    """A curve: its points are step and value, `smooth` their moving average or empty; its run's place among all."""

    run: int
    split: str
    points: Points
    smooth: Points


class Curves(NamedTuple):
    """A metric with its curves."""

    name: str
    series: list[Series]

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
    def may_be_log(self) -> bool:
        """Whether small values of it are worth telling apart."""
        return lower_is_better(self.name)

    @property
    def has_splits(self) -> bool:
        return len({it.split for it in self.series}) > 1


def curves_of(runs: list[RunFiles]) -> list[Curves]:
    """The curves of all metrics: the loss first, then other qualities, then the rest; training before others."""
    found: dict[str, dict[tuple[int, str], Points]] = {}
    for place, run in enumerate(runs):
        for line in run.lines:
            for name, value in values_of_line(line).items():
                if value is not None:
                    points = found.setdefault(name, {}).setdefault((place, line["split"]), [])
                    points.append((line["step"], value))
    names = sorted(found, key=lambda name: (name != "loss", not is_quality(name), name != "lr"))
    curves = []
    for name in names:
        series = []
        for (run, split), points in found[name].items():
            ordered = sorted(points, key=lambda point: point[0])
            is_noisy = split == "train" and name != "lr" and len(ordered) >= _SMOOTH_FROM
            series.append(Series(run, split, thinned(ordered), thinned(_averaged(ordered)) if is_noisy else []))
        series.sort(key=lambda it: (it.run, {"train": 0, "valid": 1}.get(it.split, 2), it.split))
        curves.append(Curves(name, series))
    return curves


def thinned(points: Points, most: int = MOST_POINTS) -> Points:
    """At most `most` of the points: the smallest and the largest value of each of so many stretches, and both ends."""
    if len(points) <= most:
        return points
    count = (most - 2) // 2
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
    found = []
    for place, (x, _) in enumerate(points):
        low, high = place - min(reach, place), min(place + min(reach, place) + 1, len(points))
        found.append((x, (sums[high] - sums[low]) / (high - low)))
    return found
