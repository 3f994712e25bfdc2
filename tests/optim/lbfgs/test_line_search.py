"""The line search of L-BFGS: Burn's vectors, and losses that are not finite."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from burnlike.optim.lbfgs.line_search import Sample, cubic_interpolate, strong_wolfe


def test_the_cubic_has_its_minimum_where_burn_finds_it(vectors: Callable[[str], dict[str, Any]]) -> None:
    table = vectors("optim")["lbfgs"]["cubic_interpolate"]
    assert len(table["cases"]) == 6
    for case in table["cases"]:
        *points, bounds = case["in"]
        found = cubic_interpolate(*points, bounds=None if bounds is None else tuple(bounds))
        assert found == pytest.approx(case["out"], abs=table["tolerance"]["value"])


@pytest.mark.parametrize(
    "points",
    [
        (0.0, 1.0, -1.0, 1.0, math.nan, -1.0),
        (0.0, 1.0, -1.0, 1.0, math.inf, 1.0),
        (0.0, 1.0, -1.0, 1.0, 2.0, math.nan),
        (0.0, 0.0, 1.0, 1.0, 1.0, 1.0),  # a line: no minimum, and a denominator of 0
    ],
)
def test_without_a_minimum_the_middle_is_taken(points: tuple[float, float, float, float, float, float]) -> None:
    assert cubic_interpolate(*points) == 0.5
    assert cubic_interpolate(*points, bounds=(2.0, 4.0)) == 3.0


def test_points_at_one_place_have_it_as_their_middle() -> None:
    assert cubic_interpolate(1.0, 2.0, -1.0, 1.0, 2.0, -1.0) == 1.0


def line(function: Callable[[torch.Tensor], torch.Tensor], x: float, d: float) -> Callable[[float], Sample]:
    """The samples of a function of one number along x + t * d."""
    start, direction = torch.tensor([x], dtype=torch.float64), torch.tensor([d], dtype=torch.float64)

    def evaluate(t: float) -> Sample:
        place = (start + t * direction).requires_grad_()
        value = function(place).sum()
        (gradient,) = torch.autograd.grad(value, place)
        return Sample(t, value.item(), gradient, gradient.dot(direction).item())

    return evaluate


def test_uphill_the_search_ends_where_it_began(vectors: Callable[[str], dict[str, Any]]) -> None:
    case = vectors("optim")["lbfgs"]["strong_wolfe"]
    expected, exact = case["expected"], {"abs": case["tolerance"]["value"]}
    x, d = torch.tensor([case["x"]]), torch.tensor([case["d"]])

    def evaluate(t: float) -> Sample:  # in float32, in the order of Burn's test: the numbers are close to rounding
        place = x + d * t
        square = place * place
        gradient = square * place * 4 - place * 4 + 1
        return Sample(t, (square * square - square * 2 + place).item(), gradient, gradient.dot(d).item())

    start = evaluate(0.0)
    assert start.loss == pytest.approx(expected["f_init"], **exact)
    assert start.slope == pytest.approx(expected["gtd"], **exact)
    found, evaluations = strong_wolfe(
        evaluate,
        start,
        case["t"],
        largest=abs(case["d"]),
        tolerance_change=case["tolerance_change"],
        max_iter=case["max_ls"],
    )
    assert (found.t, evaluations) == (expected["t"], expected["evals"])
    assert found.loss == pytest.approx(expected["f_final"], **exact)
    assert found.gradient.item() == pytest.approx(expected["g"], **exact)


@pytest.mark.parametrize("first", [1e-3, 0.1, 1.0, 30.0])
def test_downhill_the_strong_wolfe_conditions_hold(first: float) -> None:
    evaluate = line(lambda x: (x - 3) ** 4 + x**2, -1.0, 1.0)
    start = evaluate(0.0)
    found, _ = strong_wolfe(evaluate, start, first, largest=1.0, tolerance_change=1e-9, max_iter=25)
    assert found.loss <= start.loss + 1e-4 * found.t * start.slope
    assert abs(found.slope) <= 0.9 * abs(start.slope)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_trial_without_a_finite_loss_is_too_far(bad: float) -> None:
    inside = line(lambda x: (x - 2) ** 2, 0.0, 1.0)

    def evaluate(t: float) -> Sample:
        return inside(t) if t < 3 else Sample(t, bad, torch.tensor([bad]), bad)

    found, _ = strong_wolfe(evaluate, inside(0.0), 8.0, largest=1.0, tolerance_change=1e-9, max_iter=25)
    assert found.t < 3
    assert found.loss < 4


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_where_no_trial_is_finite_nothing_moves(bad: float) -> None:
    start = Sample(0.0, 1.0, torch.tensor([-1.0]), -1.0)
    found, evaluations = strong_wolfe(
        lambda t: Sample(t, bad, torch.tensor([bad]), bad),
        start,
        1.0,
        largest=1.0,
        tolerance_change=1e-9,
        max_iter=5,
    )
    assert found is start
    assert evaluations == 6
