"""TorchOptimizer behaves as a torch.optim.Optimizer: steps, schedulers, hooks, closures, bad input."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from burnlike.errors import ArgumentError, ConfigError, ShapeError
from burnlike.module import ParamGroup
from burnlike.optim import (
    OptimizerGroupConfig,
)

from .models import CONFIG, GROUPED, assert_equal_weights, loss_of, model_of, optimizer_of, theirs_of, train, weights_of


def test_steps_are_those_of_torch() -> None:
    model, other = model_of(), model_of()
    train(model, optimizer_of(model), 50)
    train(other, theirs_of(other), 50)
    assert_equal_weights(model, other, 1e-12)


SCHEDULERS: dict[str, Any] = {
    "lambda": lambda it: lr_scheduler.LambdaLR(it, lambda step: 1 / (step + 1)),
    "cosine": lambda it: lr_scheduler.CosineAnnealingLR(it, 6),
    "one_cycle": lambda it: lr_scheduler.OneCycleLR(it, 0.1, total_steps=9, cycle_momentum=False),
    "sequential": lambda it: lr_scheduler.SequentialLR(
        it, [lr_scheduler.ConstantLR(it, 0.1), lr_scheduler.ExponentialLR(it, 0.9)], [3]
    ),
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedulers_of_torch(name: str) -> None:
    model, other = model_of(), model_of()
    optimizer, theirs = optimizer_of(model), theirs_of(other)
    schedules = [SCHEDULERS[name](it) for it in (optimizer, theirs)]
    for step in range(8):
        train(model, optimizer, 1, step)
        train(other, theirs, 1, step)
        for schedule in schedules:
            schedule.step()
        assert optimizer.param_groups[0]["lr"] == theirs.param_groups[0]["lr"]
    assert_equal_weights(model, other, 1e-12)


def test_a_rate_is_reduced_on_a_plateau() -> None:
    optimizer = optimizer_of(model_of(), GROUPED)
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
    for _ in range(2):
        schedule.step(1.0)
    assert [group["lr"] for group in optimizer.param_groups] == [0.005, 0.0025]


def test_a_rate_may_be_a_tensor() -> None:
    model, other = model_of(), model_of()
    optimizer = optimizer_of(model)
    optimizer.param_groups[0]["lr"] = torch.tensor(0.01, dtype=torch.float64)
    train(model, optimizer, 2)
    train(other, optimizer_of(other), 2)
    assert_equal_weights(model, other)


def test_hooks_and_closures_are_called() -> None:
    model = model_of()
    optimizer = optimizer_of(model)
    called: list[str] = []
    optimizer.register_step_pre_hook(lambda *_: called.append("before"))
    optimizer.register_step_post_hook(lambda *_: called.append("after"))

    def closure() -> torch.Tensor:
        called.append("closure")
        assert torch.is_grad_enabled()
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        return loss

    with torch.no_grad():
        loss = optimizer.step(closure)
    assert called == ["before", "closure", "after"]
    assert loss.requires_grad
    other = model_of()
    train(other, theirs_of(other), 1)
    assert_equal_weights(model, other, 1e-12)


def test_gradients_stay_until_they_are_zeroed() -> None:
    model = model_of()
    optimizer = optimizer_of(model)
    loss_of(model).backward()
    optimizer.step()
    assert model[0].weight.grad is not None
    optimizer.zero_grad(set_to_none=False)
    assert torch.equal(model[0].weight.grad, torch.zeros(4, 3, dtype=torch.float64))
    optimizer.zero_grad()
    assert model[0].weight.grad is None
    before = weights_of(model)
    with pytest.warns(UserWarning, match=r"has a gradient, so nothing has changed. Is there a loss.backward\(\)"):
        optimizer.step()
    optimizer.step(lambda: loss_of(model))  # says it once
    assert all(torch.equal(now, then) for now, then in zip(model.parameters(), before, strict=True))


def test_what_can_not_be_made_is_refused() -> None:
    model = model_of()
    for options, error, text in (
        ({"lr": -0.1}, ArgumentError, "learning rate"),
        ({"lr": float("nan")}, ArgumentError, "learning rate"),
        ({"params": []}, ArgumentError, "nothing is left to train"),
        ({"params": [torch.ones(2)]}, ConfigError, r"params\[0\] is no parameter of the Sequential"),
        ({"params": [{"params": model.parameters()}], "config": GROUPED}, ConfigError, "both the config and params"),
        (
            {"config": CONFIG.replace(groups=(OptimizerGroupConfig(params=ParamGroup.from_path("none")),))},
            ConfigError,
            "matches no parameter",
        ),
    ):
        with pytest.raises(error, match=text):
            optimizer_of(model, **options)
    with pytest.raises(ArgumentError, match="Tanh has no parameters to train"):
        optimizer_of(nn.Tanh())


def test_gradients_that_do_not_fit_change_nothing() -> None:
    model = model_of()
    optimizer = optimizer_of(model)
    loss_of(model).backward()
    before = weights_of(model)
    model[0].bias.data = torch.zeros(2, dtype=torch.float64)
    with pytest.raises(ShapeError, match=r"0\.bias.* shape \[4\], expected \[2\]"):
        optimizer.step()
    assert torch.equal(model[0].weight, before[0])


def test_what_libraries_look_up_is_there() -> None:
    optimizer = optimizer_of(model_of())
    assert isinstance(optimizer, torch.optim.Optimizer)
    assert optimizer.defaults["lr"] == 0.01
    assert [optimizer.defaults[name] for name in ("foreach", "fused", "maximize")] == [None, None, False]
    assert "lr: 0.01" in repr(optimizer)
    optimizer.train()
    optimizer.eval()


def test_sparse_gradients_are_refused() -> None:
    layer = nn.Embedding(5, 2, sparse=True)
    optimizer = optimizer_of(layer)
    layer(torch.tensor([1, 2])).sum().backward()
    with pytest.raises(ArgumentError, match=r"the gradient of 'weight' is sparse.*sparse=False"):
        optimizer.step()


def test_one_optimizer_for_each_parameter_steps_in_the_backward_pass() -> None:
    model, other = model_of(), model_of()
    optimizers = {it: optimizer_of(model, params=[it]) for it in model.parameters()}

    def step_one(parameter: torch.Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step_one)
    for step in range(3):
        loss_of(model, step).backward()
    train(other, optimizer_of(other), 3)
    assert_equal_weights(model, other)
