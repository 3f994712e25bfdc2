"""Axes: where values lie between 0 and 1, and a few round ticks."""

import math
import sys
from collections.abc import Sequence
from typing import NamedTuple

_LOG_RATIO = 50
"""From which ratio of the largest value to the smallest a logarithm shows more."""

_LARGEST = sys.float_info.max


class Axis(NamedTuple):
    """The range of an axis."""

    low: float
    high: float
    is_log: bool = False

    def place(self, value: float) -> float:
        """Where a value lies: 0 at the low end, 1 at the high end."""
        low, high = self._scaled(self.low), self._scaled(self.high)
        return min(max((self._scaled(value) - low) / (high - low), 0.0), 1.0)

    def _scaled(self, value: float) -> float:
        if not self.is_log:
            return value / self._unit
        return math.log10(max(value, self.low))

    @property
    def _unit(self) -> float:
        """So that differences of huge values stay finite."""
        return max(abs(self.low), abs(self.high), 1e-300)

    def ticks(self, most: int = 5) -> list[float]:
        """Round values within the range, at most about `most`."""
        if self.is_log:
            found = _log_ticks(self.low, self.high, most)
            if len(found) > 1:
                return found
        return _linear_ticks(self.low, self.high, most)

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
    """The axis of the values of a chart.

    Args:
        values: all that is drawn; at least one.
        may_be_log: use a logarithm where the values span a large ratio.
        from_zero: begin at 0.
    """
    low, high = min(values), max(values)
    if may_be_log and low > 0 and high / low >= _LOG_RATIO:
        margin = (high / low) ** 0.04
        return Axis(low / margin, min(high * margin, _LARGEST), True)
    if from_zero and low >= 0:
        return Axis(0.0, min(high * 1.05, _LARGEST) or 1.0)
    margin = high / 2 - low / 2
    margin = margin * 0.1 if margin > 0 else abs(high) * 0.05 or 0.5
    return Axis(max(low - margin, -_LARGEST), min(high + margin, _LARGEST))


def _linear_ticks(low: float, high: float, most: int) -> list[float]:
    span = high / most - low / most
    if not 0 < span < math.inf:
        return [low]
    power = 10.0 ** math.floor(math.log10(span))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= span * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)] if last - first <= 2 * most else [low, high]


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = max(1, -(-(last - first) // (most + 1)))
    factors = (1, 2, 5) if last - first <= 2 else (1,)
    found = [factor * 10.0**power for power in range(first, last + 1, every) for factor in factors]
    return [it for it in found if low <= it <= high]
