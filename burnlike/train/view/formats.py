"""Numbers, times and lines of metrics as text, what a line's values mean, and their summary over a run's epochs."""

import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from ..._terminal import one_line, table
from ...errors import RunDirError
from ..metrics.directions import Directions, directions_in, low_is_good
from ..runs.logs import NO_VALUES, read_metrics
from ..runs.run_files import config_values

MINUTE, HOUR, DAY = 60, 3600, 86400


def format_eta(seconds: float) -> str:
    """A duration in its largest unit, as Burn writes it.

    Example:
        >>> format_eta(61), format_eta(7300)
        ('1 min', '2 hours')
    """
    for size, name in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "min"), (1, "sec")):
        count = int(seconds // size)
        if count or size == 1:
            return f"{count} {name}{'s' * (count != 1)}"
    raise AssertionError("the last unit fits any duration")


def format_elapsed(seconds: float) -> str:
    """A duration as a clock shows it.

    Example:
        >>> format_elapsed(65), format_elapsed(90061)
        ('1:05', '1d 1:01:01')
    """
    whole = int(seconds)
    days, hours, minutes = whole // DAY, whole % DAY // HOUR, whole % HOUR // MINUTE
    clock = f"{hours}:{minutes:02d}" if whole >= HOUR else str(minutes)
    return f"{f'{days}d ' * (days > 0)}{clock}:{whole % MINUTE:02d}"


def format_value(value: float | None) -> str:
    """A number of any size in a few characters; `-` for none.

    Example:
        >>> [format_value(it) for it in (2.34567, 0.0003, 123456.0, None)]
        ['2.3457', '3.00e-04', '123,456', '-']
    """
    if value is None or math.isnan(value):
        return "-"
    if value == 0 or math.isinf(value):
        return f"{value:.0f}"
    size = abs(value)
    if size < 0.001 or size >= 1e9:
        return f"{value:.2e}"
    if size >= 1000 or (value == int(value) and size >= 10):
        return f"{value:,.0f}"
    return f"{value:.{4 if size < 10 else 2}f}"


def format_bytes(count: float) -> str:
    """A number of bytes.

    Example:
        >>> format_bytes(1_500_000_000)
        '1.5 GB'
    """
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.{1 if count < 10 * size else 0}f} {unit}"
    return f"{count:.0f} bytes"


RATE = "_per_s"
"""How the names of rates end."""


def values_of_line(line: Mapping[str, Any]) -> dict[str, float | None]:
    return {name: value for name, value in line.items() if name not in NO_VALUES}


def is_quality(name: str) -> bool:
    """True if a value says how good the model is: rates of work and learning rates do not."""
    return name != "lr" and not name.endswith(RATE)


def describe(metrics: Mapping[str, Any], total_steps: int) -> str:
    """A line of metrics as text."""
    split = {"train": "", "valid": "validation "}.get(metrics["split"], f"{metrics['split']} ")
    values: list[str] = []
    for key, value in values_of_line(metrics).items():
        name = f"{split}{key}"
        if value is None or math.isnan(value):
            values.append(f"{name} -")
        elif name.endswith(RATE):
            values.append(f"{value:,.0f} {name.removesuffix(RATE)}/s")
        else:
            values.append(f"{name} {value:.1e}" if name == "lr" else f"{name} {value:.4f}")
    step = f"step {metrics['step']:>{len(str(total_steps))}}/{total_steps}"
    return "  ".join([step, f"epoch {metrics['epoch'] + 1}", *values])


class EpochValue(NamedTuple):
    """The value of an epoch, whose number is from 1."""

    epoch: int
    value: float

    def __str__(self) -> str:
        return f"{format_value(self.value)} ({self.epoch})"


class MetricSummary(NamedTuple):
    """A metric of a split, with a value for each epoch that has one, in their order; at least one."""

    split: str
    name: str
    epochs: list[EpochValue]
    low_is_good: bool

    @property
    def first(self) -> float:
        return self.epochs[0].value

    @property
    def last(self) -> float:
        return self.epochs[-1].value

    @property
    def lowest(self) -> EpochValue:
        return min(self.epochs, key=lambda it: it.value)

    @property
    def highest(self) -> EpochValue:
        return max(self.epochs, key=lambda it: it.value)

    @property
    def best(self) -> EpochValue:
        """The lowest or the highest, as is good; of equals the first."""
        return self.lowest if self.low_is_good else self.highest


class LearnerSummary(NamedTuple):
    """Each metric of each split: the value of the first epoch and the last, the lowest and the highest.

    The value of an epoch is the mean of its training lines, weighted by their steps, or what a validation at its end
    gave. Values that are not finite don't count.

    Example:
        >>> lines = [{"step": 10 * n, "epoch": n, "split": "valid", "loss": loss} for n, loss in enumerate((2.0, 1.5))]
        >>> print(LearnerSummary.of(lines))
        split  metric  first   last    min (epoch)  max (epoch)
        valid  loss    2.0000  1.5000  1.5000 (2)   2.0000 (1)
    """

    metrics: list[MetricSummary]

    @classmethod
    def of(cls, lines: Iterable[Mapping[str, Any]], directions: Directions | None = None) -> Self:
        sums: dict[tuple[str, str], dict[int, tuple[float, int]]] = {}  # by split and name, then by epoch
        last_step: dict[str, int] = {}
        for line in lines:
            split, step = line["split"], line["step"]
            steps = max(step - last_step.get(split, 0), 1)
            last_step[split] = step
            for name, value in values_of_line(line).items():
                if value is None:
                    continue
                epochs = sums.setdefault((split, name), {})
                if split == "train":
                    total, count = epochs.get(line["epoch"], (0.0, 0))
                    epochs[line["epoch"]] = total + value * steps, count + steps
                else:
                    epochs[line["epoch"]] = value, 1
        order = {"train": 0, "valid": 1}  # then others as they came
        metrics = []
        for (split, name), of_epochs in sorted(sums.items(), key=lambda pair: order.get(pair[0][0], 2)):
            epochs = [EpochValue(epoch + 1, total / count) for epoch, (total, count) in sorted(of_epochs.items())]
            metrics.append(MetricSummary(split, name, epochs, low_is_good(name, directions or {})))
        return cls(metrics)

    @classmethod
    def of_run(cls, path: str | os.PathLike[str]) -> Self:
        """The summary of a run's `metrics.jsonl`; a RunDirError if it is missing or has no line that can be read."""
        file = Path(path, "metrics.jsonl")
        lines = read_metrics(file).lines
        if not lines:
            raise RunDirError(f"{file} has no lines of metrics; expected the directory of a run")
        return cls.of(lines, directions_in(config_values(Path(path))))

    def find(self, split: str, name: str) -> MetricSummary | None:
        return next((metric for metric in self.metrics if (metric.split, metric.name) == (split, name)), None)

    def __str__(self) -> str:
        rows = [("split", "metric", "first", "last", "min (epoch)", "max (epoch)")]
        for metric in self.metrics:
            ends = str(metric.lowest), str(metric.highest)
            rows.append((metric.split, metric.name, format_value(metric.first), format_value(metric.last), *ends))
        return "\n".join(table([[one_line(cell) for cell in row] for row in rows]))
