"""LearnerSummary: the metrics of a run over its epochs, as a table."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from ..._terminal import one_line, table
from ...errors import RunDirError
from ..runs.logs import read_metrics
from .formats import format_value, lower_is_better, values_of_line


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
        """The lowest or the highest, by the metric's name; of equals the first."""
        return self.lowest if lower_is_better(self.name) else self.highest


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
    def of(cls, lines: Iterable[Mapping[str, Any]]) -> Self:
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
        metrics = [
            MetricSummary(*key, [EpochValue(epoch + 1, total / count) for epoch, (total, count) in sorted(it.items())])
            for key, it in sorted(sums.items(), key=lambda pair: order.get(pair[0][0], 2))
        ]
        return cls(metrics)

    @classmethod
    def of_run(cls, path: str | os.PathLike[str]) -> Self:
        """The summary of a run's `metrics.jsonl`; a RunDirError if it is missing or has no line that can be read."""
        file = Path(path, "metrics.jsonl")
        lines = read_metrics(file).lines
        if not lines:
            raise RunDirError(f"{file} has no lines of metrics; expected the directory of a run")
        return cls.of(lines)

    def find(self, split: str, name: str) -> MetricSummary | None:
        return next((it for it in self.metrics if (it.split, it.name) == (split, name)), None)

    def __str__(self) -> str:
        rows = [("split", "metric", "first", "last", "min (epoch)", "max (epoch)")]
        for metric in self.metrics:
            ends = str(metric.lowest), str(metric.highest)
            rows.append((metric.split, metric.name, format_value(metric.first), format_value(metric.last), *ends))
        return "\n".join(table([[one_line(cell) for cell in row] for row in rows]))
