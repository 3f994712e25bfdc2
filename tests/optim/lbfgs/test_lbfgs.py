"""L-BFGS and its line search against Burn's steps and torch.optim.LBFGS in float64, and what it refuses."""

import math
from collections.abc import Callable
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

import burnlike as bl
from burnlike.errors import ArgumentError, ConfigError, ShapeError, TrainingError
from burnlike.optim import GradientsParams, Lbfgs, LbfgsConfig, ModuleLearningRate
from burnlike.optim.lbfgs.lbfgs import Sample, cubic_interpolate, strong_wolfe

from .problems import Point, closure_of, convex, rosenbrock, values_of

Search = Literal["StrongWolfe"] | None
SEARCHES: list[Search] = [None, "StrongWolfe"]


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(
    ("function", "start", "lr", "steps"),
    # In the curved valley of four values roundings grow tenfold with each step, so that it takes three.
    [(rosenbrock, [-1.2, 1.0], 1.0, 12), (rosenbrock, [-1.2, 1.0, 0.5, 2.0], 0.3, 3), (convex, [3.0] * 12, 0.7, 8)],
    ids=["rosenbrock", "rosenbrock of 4", "convex"],
)
@pytest.mark.parametrize("history_size", [100, 3])
def test_steps_are_those_of_torch(
    search: Search, function: Callable[[Tensor], Tensor], start: list[float], lr: float, steps: int, history_size: int
) -> None:
    if search is None and function is rosenbrock:
        lr, steps = 0.02, 3  # without a search larger ones diverge, here as in torch
    ours, theirs = Point(function, start), Point(function, start)
    optimizer = LbfgsConfig(line_search_fn=search, history_size=history_size, max_iter=10).init()
    their_optimizer = torch.optim.LBFGS(
        theirs.parameters(),
        lr=lr,
        max_iter=10,
        history_size=history_size,
        line_search_fn=None if search is None else "strong_wolfe",
    )

    def their_closure() -> Tensor:
        their_optimizer.zero_grad()
        loss = theirs()
        loss.backward()
        return loss

    for _ in range(steps):
        before = ours().item()
        _, loss = optimizer.step(lr, ours, closure_of)
        returned = their_optimizer.step(their_closure)  # the loss from before the step
        assert returned.item() == pytest.approx(before, rel=1e-12, abs=1e-12)
        assert loss == pytest.approx(theirs().item(), rel=1e-12, abs=1e-12)
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    if search is not None and len(start) == 2:
        assert [p.item() for p in ours.parameters()] == pytest.approx([1.0, 1.0], abs=1e-4)


def test_the_history_is_bounded() -> None:
    model = Point(rosenbrock, [-1.2, 1.0])
    optimizer = LbfgsConfig(history_size=3, line_search_fn="StrongWolfe").init()
    optimizer.step(1.0, model, closure_of)
    assert optimizer.state.g_iter > 4
    assert len(optimizer.state.history_s) == len(optimizer.state.history_y) == 3


def test_at_the_minimum_nothing_changes() -> None:
    model = Point(rosenbrock, [1.0, 1.0])
    optimizer = LbfgsConfig().init()
    calls = []

    def closure(model: nn.Module) -> tuple[Tensor, GradientsParams]:
        calls.append(0)
        return closure_of(model)

    before = values_of(model)
    _, loss = optimizer.step(1.0, model, closure)
    assert (loss, len(calls), optimizer.state.g_iter) == (0.0, 1, 0)
    assert all(map(torch.equal, values_of(model), before))


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(("max_eval", "most"), [(None, 25), (4, 4), (1, 2)])
def test_the_closure_is_called_so_often_at_most(search: Search, max_eval: int | None, most: int) -> None:
    model = Point(rosenbrock, [-1.2, 1.0])
    calls = []

    def closure(model: nn.Module) -> tuple[Tensor, GradientsParams]:
        calls.append(0)
        return closure_of(model)

    config = LbfgsConfig(max_eval=max_eval, line_search_fn=search, tolerance_change=0.0)
    config.init().step(0.01, model, closure)
    # A search that begins with one evaluation left makes two, as Burn's and torch's.
    assert 1 < len(calls) <= most + (search is not None)


@pytest.mark.parametrize("search", SEARCHES)
def test_frozen_parameters_stay_and_the_others_move_as_without_them(search: Search) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(8, 3, dtype=torch.float64), torch.randn(8, 2, dtype=torch.float64)
    both = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    alone = nn.Linear(4, 2).double()
    alone.load_state_dict(both[2].state_dict())
    both[0].requires_grad_(False)
    frozen = values_of(both[0])
    with torch.no_grad():
        hidden = both[:2](x)

    def closure(model: nn.Module, inputs: Tensor) -> tuple[Tensor, GradientsParams]:
        loss = (model(inputs) - y).square().mean()
        loss.backward()
        return loss, GradientsParams.from_module(model)

    optimizers = [LbfgsConfig(line_search_fn=search).init() for _ in range(2)]
    for _ in range(3):
        optimizers[0].step(0.5, both, lambda model: closure(model, x))
        optimizers[1].step(0.5, alone, lambda model: closure(model, hidden))
    assert all(map(torch.equal, values_of(both[0]), frozen))
    assert [param.requires_grad for param in both.parameters()] == [False, False, True, True]
    for one, other in zip(both[2].parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_what_is_frozen_later_stays_although_the_history_moves_it() -> None:
    model = Point(rosenbrock, [-1.2, 1.0, 0.5, 2.0])
    optimizer = LbfgsConfig(line_search_fn="StrongWolfe", max_iter=5).init()
    _, first = optimizer.step(1.0, model, closure_of)
    model.first.requires_grad_(False)
    before = model.first.detach().clone()
    _, second = optimizer.step(1.0, model, closure_of)
    assert torch.equal(model.first, before)
    assert second < first


def test_half_parameters_keep_their_dtype() -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 1).bfloat16()
    x = torch.randn(16, 4).bfloat16()

    def closure(model: nn.Module) -> tuple[Tensor, GradientsParams]:
        loss = (model(x).float() - 1).square().mean()
        loss.backward()
        return loss, GradientsParams.from_module(model)

    first, _ = closure(model)
    optimizer = LbfgsConfig(line_search_fn="StrongWolfe").init()
    _, loss = optimizer.step(1.0, model, closure)
    assert loss < first.item() / 10
    assert {param.dtype for param in model.parameters()} == {torch.bfloat16}
    assert {it.dtype for it in optimizer.state.vectors} == {torch.float32}


def test_a_typed_loss_and_its_gradients_are_taken() -> None:
    backend = bl.Autodiff(bl.Cpu())
    model, plain = nn.Linear(2, 1), nn.Linear(2, 1)
    plain.load_state_dict(model.state_dict())
    x = torch.rand(6, 2)

    def typed(model: nn.Module) -> tuple[Any, GradientsParams]:
        loss = (model(bl.Tensor(x, backend)) - 1).powi_scalar(2).mean()
        return loss, GradientsParams.from_grads(loss.backward(), model)

    def untyped(model: nn.Module) -> tuple[Tensor, GradientsParams]:
        loss = (model(x) - 1).square().mean()
        loss.backward()
        return loss, GradientsParams.from_module(model)

    _, ours = LbfgsConfig().init().step(0.1, model, typed)
    _, theirs = LbfgsConfig().init().step(0.1, plain, untyped)
    assert ours == pytest.approx(theirs, rel=1e-5)


def test_a_closure_in_torchs_protocol_gives_the_first_loss() -> None:
    ours, theirs = Point(rosenbrock, [-1.2, 1.0]), Point(rosenbrock, [-1.2, 1.0])
    theirs.first.grad = torch.ones_like(theirs.first)  # of an earlier pass: not counted

    def closure() -> Tensor:
        loss = theirs()
        loss.backward()
        return loss

    before = ours().item()
    LbfgsConfig().init().step(0.01, ours, closure_of)
    found = LbfgsConfig().init().step_closure(0.01, theirs, closure)
    assert found.item() == before
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_rate_of_zero_changes_nothing() -> None:
    model = Point(rosenbrock, [-1.2, 1.0])
    before = values_of(model)
    for search in SEARCHES:
        _, loss = LbfgsConfig(line_search_fn=search).init().step(0.0, model, closure_of)
        assert loss == model().item()
    assert all(map(torch.equal, values_of(model), before))


def test_the_config_is_read_from_yaml() -> None:
    config = LbfgsConfig.from_yaml("type: Lbfgs\nmax_iter: 7\nline_search_fn: StrongWolfe\n")
    assert config == LbfgsConfig(max_iter=7, line_search_fn="StrongWolfe")
    assert LbfgsConfig.from_yaml(config.to_yaml()) == config


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


def trained() -> tuple[Point, Lbfgs]:
    model = Point(rosenbrock, [-1.2, 1.0])
    optimizer = LbfgsConfig(line_search_fn="StrongWolfe", max_iter=4).init()
    optimizer.step(1.0, model, closure_of)
    return model, optimizer


def other_shape(model: nn.Module) -> tuple[Tensor, GradientsParams]:
    loss, grads = closure_of(model)
    grads.values[0] = torch.ones(3)
    return loss, grads


def other_module(_: nn.Module) -> tuple[Tensor, GradientsParams]:
    return closure_of(Point(rosenbrock, [1.0, 2.0]))


def infinite(model: nn.Module) -> tuple[float, GradientsParams]:
    return float("nan"), closure_of(model)[1]


def failing(model: nn.Module) -> tuple[Tensor, GradientsParams]:
    raise KeyError("the closure's own")


@pytest.mark.parametrize("after", [0, 2])
@pytest.mark.parametrize(
    ("closure", "error", "message"),
    [
        (lambda model: model(), ArgumentError, "returns \\(loss, GradientsParams\\), got Tensor; end it with"),
        (lambda model: (model(), {}), ArgumentError, "got \\(Tensor, dict\\)"),
        (lambda model: ("1", closure_of(model)[1]), ArgumentError, "one number, got str"),
        (lambda model: (torch.ones(2), closure_of(model)[1]), ArgumentError, "got a tensor of shape \\[2\\]"),
        (other_shape, ShapeError, "gradient of 'first' has shape \\[3\\], expected \\[1\\]"),
        (other_module, ArgumentError, "no parameter of the module"),
        (failing, KeyError, "the closure's own"),
    ],
)
def test_a_bad_closure_leaves_module_and_state_as_they_were(
    closure: Callable[[Any], Any], error: type[Exception], message: str, after: int
) -> None:
    model, optimizer = trained()
    before, state = values_of(model), optimizer.state
    calls = []

    def mixed(model: nn.Module) -> Any:
        calls.append(0)
        return closure_of(model) if len(calls) <= after else closure(model)

    with pytest.raises(error, match=message):
        optimizer.step(1.0, model, mixed)
    assert len(calls) == after + 1
    assert all(map(torch.equal, values_of(model), before))
    assert optimizer.state is state


def test_a_loss_that_is_not_finite_at_the_start_is_an_error() -> None:
    model, optimizer = trained()
    before, state = values_of(model), optimizer.state
    with pytest.raises(TrainingError, match="the loss is nan"):
        optimizer.step(1.0, model, infinite)
    assert all(map(torch.equal, values_of(model), before))
    assert optimizer.state is state


@pytest.mark.parametrize("lr", [-1.0, float("nan"), float("inf"), ModuleLearningRate(0.1)])
def test_a_bad_rate_is_refused(lr: Any) -> None:
    model, optimizer = trained()
    with pytest.raises(ArgumentError, match="learning rate >= 0"):
        optimizer.step(lr, model, closure_of)


def test_a_state_of_another_module_is_refused_before_the_closure_runs() -> None:
    _, optimizer = trained()
    with pytest.raises(ShapeError, match="state is of 2 values, the module has 4"):
        optimizer.step(1.0, Point(rosenbrock, [1.0] * 4), failing)


def test_a_module_without_parameters_is_refused() -> None:
    with pytest.raises(ArgumentError, match="a Tanh without any"):
        LbfgsConfig().init().step(1.0, nn.Tanh(), closure_of)


@pytest.mark.parametrize(
    "field",
    [
        {"max_iter": 0},
        {"history_size": 0},
        {"max_eval": 0},
        {"tolerance_grad": -1.0},
        {"tolerance_change": -1.0},
        {"line_search_fn": "strong_wolfe"},
    ],
)
def test_a_config_out_of_range_is_refused(field: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(field))):
        LbfgsConfig(**field)
