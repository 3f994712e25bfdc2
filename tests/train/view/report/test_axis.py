"""Axes: ranges, ticks and their labels."""

import math

import pytest
from hypothesis import given, strategies

from burnlike.train.view.report.chart import Axis, value_axis

FINITE = strategies.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("axis", "labels"),
    [
        (Axis(0, 3000), ["0", "1k", "2k", "3k"]),
        (Axis(0.87, 4.6), ["1", "2", "3", "4"]),
        (Axis(0, 0.0031), ["0", "0.001", "0.002", "0.003"]),
        (Axis(-1.2, 1.2), ["-1", "-0.5", "0", "0.5", "1"]),
        (Axis(0, 2.5e6), ["0", "500k", "1M", "1.5M", "2M", "2.5M"]),
        (Axis(1e-4, 20, True), ["1e-4", "0.001", "0.01", "0.1", "1", "10"]),
        (Axis(0.3, 8, True), ["0.5", "1", "2", "5"]),
    ],
)
def test_ticks_are_few_and_round(axis: Axis, labels: list[str]) -> None:
    assert [axis.label(it) for it in axis.ticks()] == labels


def test_places() -> None:
    assert [Axis(0, 10).place(it) for it in (0, 2.5, 10, -1, 11)] == [0, 0.25, 1, 0, 1]
    log = Axis(0.01, 100, True)
    assert [log.place(it) for it in (0.01, 1, 100)] == pytest.approx([0, 0.5, 1])
    assert log.place(0) == 0


def test_a_logarithm_is_taken_where_it_helps() -> None:
    assert value_axis([0.1, 10.0], may_be_log=True, from_zero=False).is_log
    assert not value_axis([0.1, 4.0], may_be_log=True, from_zero=False).is_log
    assert not value_axis([0.1, 10.0], may_be_log=False, from_zero=False).is_log
    assert not value_axis([0.0, 10.0], may_be_log=True, from_zero=False).is_log
    assert value_axis([5.0, 6.0], may_be_log=False, from_zero=True).low == 0


@given(strategies.lists(FINITE, min_size=1, max_size=5), strategies.booleans(), strategies.booleans())
def test_any_values_have_an_axis(values: list[float], may_be_log: bool, from_zero: bool) -> None:
    axis = value_axis(values, may_be_log=may_be_log, from_zero=from_zero)
    assert axis.low < axis.high
    places = [axis.place(it) for it in values]
    assert all(0 <= it <= 1 for it in places)
    ticks = axis.ticks()
    assert 1 <= len(ticks) <= 12
    assert all(math.isfinite(it) and axis.label(it) for it in ticks)
