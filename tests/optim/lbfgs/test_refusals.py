"""What L-BFGS refuses, and that module and state are then as they were."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike.errors import ArgumentError, ConfigError, ShapeError, TrainingError
from burnlike.optim import GradientsParams, Lbfgs, LbfgsConfig, ModuleLearningRate

from .problems import Point, closure_of, rosenbrock, values_of


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
