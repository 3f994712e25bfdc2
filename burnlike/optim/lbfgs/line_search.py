"""A step length that satisfies the strong Wolfe conditions.

Nocedal & Wright 2006, algorithms 3.5 (bracketing) and 3.6 (zoom) with cubic interpolation, as in minFunc, torch and
burn-optim (lbfgs.rs). Here a loss that is not finite counts as too high: the step is shortened.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

_DECREASE = 1e-4
"""c1: the loss has to fall by this part of what the slope at the start promises."""
_CURVATURE = 0.9
"""c2: the slope has to fall to this part of that at the start."""


class Sample(NamedTuple):
    """A step length `t`, 0 at the start, with the loss, its flat gradient and its slope along the line there."""

    t: float
    loss: float
    gradient: Tensor
    slope: float


def strong_wolfe(
    evaluate: Callable[[float], Sample],
    start: Sample,
    t: float,
    *,
    largest: float,
    tolerance_change: float,
    max_iter: int,
) -> tuple[Sample, int]:
    """Search along a line: the best sample, which satisfies the conditions if the search ended in time, and the
    evaluations.

    `t` is tried first; `largest` is the magnitude of the largest value of the direction: an interval in which no value
    changes by more than `tolerance_change` is not divided further. After the first trial there are at most `max_iter`.
    """
    before, sample = start, evaluate(t)
    for count in range(max_iter):
        if not _is_low(sample, start) or (count > 1 and sample.loss >= before.loss):
            return _zoom(evaluate, start, [before, sample], count, largest, tolerance_change, max_iter)
        if _is_flat(sample, start):
            return sample, count + 1
        if sample.slope >= 0:
            return _zoom(evaluate, start, [before, sample], count, largest, tolerance_change, max_iter)
        bounds = sample.t + 0.01 * (sample.t - before.t), sample.t * 10
        before, sample = sample, evaluate(_minimum(before, sample, bounds))
    return min(start, sample, key=_loss), max_iter + 1


def _zoom(
    evaluate: Callable[[float], Sample],
    start: Sample,
    bracket: list[Sample],
    count: int,
    largest: float,
    tolerance_change: float,
    max_iter: int,
) -> tuple[Sample, int]:
    """Narrow down an interval that holds a good point; `count` trials were made before."""
    low = _lower(bracket)
    was_close = False
    while count < max_iter and abs(bracket[1].t - bracket[0].t) * largest >= tolerance_change:
        t = _minimum(bracket[0], bracket[1])
        left, right = sorted(it.t for it in bracket)
        margin = 0.1 * (right - left)
        is_close = min(right - t, t - left) < margin
        if is_close and (was_close or t >= right or t <= left):
            # Twice near an end of the interval is no progress.
            t = right - margin if abs(t - right) < abs(t - left) else left + margin
            is_close = False
        was_close = is_close
        sample = evaluate(t)
        count += 1
        if not _is_low(sample, start) or not sample.loss < bracket[low].loss:
            bracket[1 - low] = sample
            low = _lower(bracket)
            continue
        if _is_flat(sample, start):
            return sample, count + 1
        if sample.slope * (bracket[1 - low].t - bracket[low].t) >= 0:
            bracket[1 - low] = bracket[low]
        bracket[low] = sample
    return bracket[low], count + 1


def _is_low(sample: Sample, start: Sample) -> bool:
    """Armijo's condition; False for NaN."""
    return sample.loss <= start.loss + _DECREASE * sample.t * start.slope


def _is_flat(sample: Sample, start: Sample) -> bool:
    """The strong condition on the curvature."""
    return abs(sample.slope) <= -_CURVATURE * start.slope


def _loss(sample: Sample) -> float:
    return math.inf if math.isnan(sample.loss) else sample.loss


def _lower(bracket: list[Sample]) -> int:
    return 1 if _loss(bracket[1]) < _loss(bracket[0]) else 0


def _minimum(one: Sample, other: Sample, bounds: tuple[float, float] | None = None) -> float:
    return cubic_interpolate(one.t, one.loss, one.slope, other.t, other.loss, other.slope, bounds)


def cubic_interpolate(
    x1: float, f1: float, g1: float, x2: float, f2: float, g2: float, bounds: tuple[float, float] | None = None
) -> float:
    """The minimum of the cubic through two points with slopes; Nocedal & Wright 2006, equation 3.59.

    It is cut to `bounds`, or to the interval between the points; where there is none, it is the middle of that.
    """
    lower, upper = bounds or (min(x1, x2), max(x1, x2))
    middle = (lower + upper) / 2
    try:
        d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
        d2_square = d1 * d1 - g1 * g2
        if not 0 <= d2_square < math.inf:
            return middle
        d2 = math.sqrt(d2_square)
        if x1 <= x2:
            place = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
        else:
            place = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    except ZeroDivisionError:
        return middle
    return min(max(place, lower), upper) if math.isfinite(place) else middle
