"""Burn's entries of numeric metrics: their text form, their running mean, and their value over an epoch."""

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from ...errors import ArgumentError
from .formats import format_float


class Value(NamedTuple):
    """A value of one item."""

    value: float


class Aggregated(NamedTuple):
    """The mean of several items."""

    value: float
    items: int


class Final(NamedTuple):
    """The value of a whole epoch, which counts instead of all others."""

    value: float


NumericEntry = Value | Aggregated | Final


def serialize(entry: NumericEntry) -> str:
    """The entry as Burn writes it into a log: `0.5`, or `1.25,2` with its count."""
    text = f"{Decimal(repr(entry.value)):f}".removesuffix(".0")
    return f"{text},{entry.items}" if isinstance(entry, Aggregated) else text


def deserialize(text: str) -> NumericEntry:
    """Read what `serialize` wrote.

    Raises:
        ArgumentError: it is no entry.
    """
    parts = text.split(",")
    if len(parts) > 2:
        raise ArgumentError(f"Invalid number of values for numeric entry: {text!r}")
    try:
        return Value(float(parts[0])) if len(parts) == 1 else Aggregated(float(parts[0]), int(parts[1]))
    except ValueError as error:
        raise ArgumentError(f"expected an entry such as 0.5 or 1.25,2, got {text!r}") from error


def aggregate(entries: Sequence[NumericEntry]) -> float | None:
    """The value of an epoch: its last `Final` entry, else the mean with each entry's count as its weight.

    Returns:
        None of no entries.
    """
    finals = [it.value for it in entries if isinstance(it, Final)]
    if finals:
        return finals[-1]
    counts = [it.items if isinstance(it, Aggregated) else 1 for it in entries]
    if not sum(counts):
        return None
    return sum(it.value * count for it, count in zip(entries, counts, strict=True)) / sum(counts)


class NumericMetricState:
    """The last value of a metric, and its mean so far, each value weighted by the items that it is of."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all values, as at the start of an epoch."""
        self.value = math.nan
        self._sum, self._count = 0.0, 0

    def update(self, value: float, count: int) -> None:
        """Take a value of `count` items."""
        self.value = value
        self._sum += value * count
        self._count += count

    @property
    def running_value(self) -> float:
        """The mean so far; NaN of nothing."""
        return self._sum / self._count if self._count else math.nan

    def formatted(self, precision: int, unit: str = "") -> str:
        """Both values as text: `epoch 2.50 - batch 4.00`."""
        after = f" {unit}" if unit else ""
        mean, last = format_float(self.running_value, precision), format_float(self.value, precision)
        return f"epoch {mean}{after} - batch {last}{after}"
