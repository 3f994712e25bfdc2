"""TorchOptimizer and TorchLbfgs behave as torch's: steps, hooks, closures, GradScaler and compiled steps."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter
from torch.optim import lr_scheduler

from burnlike.errors import ArgumentError, ConfigError, RecordMismatchError, ShapeError
from burnlike.interop import TorchLbfgs, TorchOptimizer
from burnlike.module import ParamGroup
from burnlike.optim import AdaGradConfig, ClipByGlobalNorm, LbfgsConfig, OptimizerGroupConfig, SgdConfig

from .models import CONFIG, GROUPED, assert_equal_weights, loss_of, model_of, optimizer_of, theirs_of, train, weights_of
from .test_state_dicts import saved_and_loaded, swapped


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


LBFGS_CONFIG = LbfgsConfig(max_iter=4, history_size=5)


def fit(model: nn.Module, optimizer: Any, steps: int) -> list[float]:
    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        return loss

    return [optimizer.step(closure).item() for _ in range(steps)]


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_steps_of_lbfgs_are_those_of_torch(search: str | None) -> None:
    model, other = model_of(), model_of()
    config = LBFGS_CONFIG.replace(line_search_fn=search and "StrongWolfe")
    ours = TorchLbfgs(model, config, lr=0.1)
    theirs = torch.optim.LBFGS(other.parameters(), lr=0.1, max_iter=4, history_size=5, line_search_fn=search)
    schedules = [torch.optim.lr_scheduler.ExponentialLR(it, 0.5) for it in (ours, theirs)]
    for _ in range(3):
        torch.testing.assert_close(fit(model, ours, 1), fit(other, theirs, 1), rtol=1e-10, atol=0)
        for schedule in schedules:
            schedule.step()
    assert_equal_weights(model, other, 1e-10)


def test_training_goes_on_from_a_file_and_in_a_copy() -> None:
    model = model_of()
    optimizer = TorchLbfgs(model, LBFGS_CONFIG, lr=0.1)
    fit(model, optimizer, 2)
    twin = copy.deepcopy(model)
    resumed = TorchLbfgs(twin, LBFGS_CONFIG, lr=0.5)
    resumed.load_state_dict(saved_and_loaded(optimizer.state_dict()))
    copied, its_optimizer = copy.deepcopy((model, optimizer))
    losses = fit(model, optimizer, 2)
    assert fit(twin, resumed, 2) == losses
    assert fit(copied, its_optimizer, 2) == losses
    assert_equal_weights(twin, model)


def test_a_torch_optimizer_of_its_config_is_one() -> None:
    model, other = model_of(), model_of()
    optimizer: Any = TorchOptimizer(model, LBFGS_CONFIG, lr=0.1)
    assert type(optimizer) is TorchLbfgs
    assert type(TorchOptimizer(module=model, config=LBFGS_CONFIG, lr=0.1)) is TorchLbfgs
    assert fit(model, optimizer, 2) == fit(other, TorchLbfgs(other, LBFGS_CONFIG, lr=0.1), 2)


def test_hooks_are_called() -> None:
    model = model_of()
    optimizer = TorchLbfgs(model, LBFGS_CONFIG)
    called: list[str] = []
    optimizer.register_step_post_hook(lambda *_: called.append("after"))
    optimizer.register_load_state_dict_post_hook(lambda _: called.append("loaded"))
    fit(model, optimizer, 1)
    optimizer.load_state_dict(optimizer.state_dict())
    assert called == ["after", "loaded"]


def test_what_can_not_be_done_is_refused() -> None:
    model = model_of()
    optimizer = TorchLbfgs(model, LBFGS_CONFIG, lr=0.1)
    with pytest.raises(ArgumentError, match="needs a closure"):
        optimizer.step()
    with pytest.raises(ConfigError, match="stepped together"):
        optimizer.add_param_group({"params": []})
    with pytest.raises(ArgumentError, match="learning rate"):
        TorchLbfgs(model, LBFGS_CONFIG, lr=-1.0)
    with pytest.raises(ArgumentError, match="no parameters"):
        TorchLbfgs(nn.Tanh(), LBFGS_CONFIG)
    with pytest.raises(ConfigError, match="freeze those that are not to change"):
        TorchOptimizer(model, LBFGS_CONFIG, lr=0.1, params=model.parameters())
    fit(model, optimizer, 1)
    with pytest.raises(RecordMismatchError, match="fits no other order"):
        TorchLbfgs(swapped(model_of()), LBFGS_CONFIG).load_state_dict(
            {**optimizer.state_dict(), "param_groups": [{"param_names": ["a"]}]}
        )
    with pytest.raises(RecordMismatchError, match="fits no other order"):
        TorchLbfgs(swapped(copy.deepcopy(model)), LBFGS_CONFIG).load_record(optimizer.into_record())
    other = optimizer_of(model)
    train(model, other, 1)
    before = repr(optimizer.state_dict())
    for wrong in (other.state_dict(), {}, 3):
        with pytest.raises(RecordMismatchError, match="expected a state dict with one group"):
            optimizer.load_state_dict(wrong)  # pyright: ignore[reportArgumentType]
    wrong = optimizer.state_dict()
    wrong["param_groups"][0]["lr"] = float("nan")
    with pytest.raises(ArgumentError, match="learning rate"):
        optimizer.load_state_dict(wrong)
    assert repr(optimizer.state_dict()) == before


RULES = {"kernel": CONFIG, "groups": GROUPED, "lists": AdaGradConfig(), "plain": SgdConfig()}


def scaler_of() -> torch.amp.GradScaler:
    return torch.amp.GradScaler("cpu", init_scale=1024.0)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("clip", [False, True])
def test_a_scaled_step_is_the_plain_one(name: str, clip: bool) -> None:
    config = RULES[name].replace(grad_clipping=ClipByGlobalNorm(threshold=0.5)) if clip else RULES[name]
    model, other = model_of(), model_of()
    optimizer, plain = optimizer_of(model, config), optimizer_of(other, config)
    scaler = scaler_of()
    for step in range(3):
        optimizer.zero_grad()
        scaler.scale(loss_of(model, step)).backward()
        scaler.step(optimizer)
        scaler.update()
    train(other, plain, 3)
    assert_equal_weights(model, other, 1e-12)
    assert not hasattr(optimizer, "grad_scale")


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("unscaled", [False, True])
def test_an_overflow_skips_the_step_and_lowers_the_scale(name: str, after: int, unscaled: bool) -> None:
    model = model_of()
    optimizer = optimizer_of(model, RULES[name])
    train(model, optimizer, after)
    before, state = weights_of(model), repr(optimizer.state_dict())
    scaler = scaler_of()
    optimizer.zero_grad()
    scaler.scale(loss_of(model)).backward()
    model[2].bias.grad[1] = torch.inf
    if unscaled:
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert all(torch.equal(now, then) for now, then in zip(model.parameters(), before, strict=True))
    assert repr(optimizer.state_dict()) == state
    assert scaler.get_scale() == 512.0
    train(model, optimizer, 1)
    assert not torch.equal(model[0].weight, before[0])


def test_gradients_that_the_program_unscaled_and_clipped_are_taken_as_they_are() -> None:
    model, other = model_of(), model_of()
    optimizer, plain = optimizer_of(model), optimizer_of(other)
    scaler = scaler_of()
    for step in range(3):
        optimizer.zero_grad()
        scaler.scale(loss_of(model, step)).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
        plain.zero_grad()
        loss_of(other, step).backward()
        nn.utils.clip_grad_norm_(other.parameters(), 0.1)
        plain.step()
    assert_equal_weights(model, other, 1e-12)


@pytest.mark.parametrize("name", RULES)
def test_unscaling_may_be_left_to_the_scaler(name: str) -> None:
    model, other = model_of(), model_of()
    optimizer, plain = optimizer_of(model, RULES[name], unscale_in_step=False), optimizer_of(other, RULES[name])
    model, optimizer = copy.deepcopy((model, optimizer))
    called: list[int] = []
    optimizer.register_step_post_hook(lambda *_: called.append(1))
    scaler = scaler_of()
    for step in range(4):
        optimizer.zero_grad()
        scaler.scale(loss_of(model, step)).backward()
        if step == 3:
            model[2].bias.grad[1] = torch.inf
        scaler.step(optimizer)
        scaler.update()
    train(other, plain, 3)
    assert_equal_weights(model, other, 1e-12)
    assert len(called) == 3
    assert scaler.get_scale() == 512.0


def test_a_scaler_that_is_off_only_steps() -> None:
    model, other = model_of(), model_of()
    optimizer = optimizer_of(model)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    scaler.scale(loss_of(model)).backward()
    scaler.step(optimizer)
    scaler.update()
    train(other, optimizer_of(other), 1)
    assert_equal_weights(model, other)


STEPS = 100


def run(model: nn.Module, decorate: Callable[[Any], Any], *, scheduled: bool) -> None:
    optimizer = optimizer_of(model, GROUPED)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (step + 1)) if scheduled else None

    @decorate
    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = (model(x) - 0.3).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    for number in range(STEPS):
        if schedule is None:
            optimizer.param_groups[0]["lr"] = 0.01 / (number + 1)
        step(torch.linspace(-1, 1, 15, dtype=torch.float64).reshape(5, 3).roll(number))
        if schedule is not None:
            schedule.step()


# torch.compile itself looks at the gradient of the loss where the function goes on after a break.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("scheduled", [False, True])
def test_a_changing_rate_makes_at_most_two_frames(scheduled: bool) -> None:
    torch._dynamo.reset()
    model, other = model_of(), model_of()
    counter = CompileCounter()
    run(model, torch.compile(backend=counter), scheduled=scheduled)
    assert counter.frame_count <= 2
    run(other, lambda it: it, scheduled=scheduled)
    assert_equal_weights(model, other, 1e-12)


def test_a_step_alone_may_be_compiled() -> None:
    torch._dynamo.reset()
    model, other = model_of(), model_of()
    counter = CompileCounter()
    for each, decorate in ((model, torch.compile(backend=counter)), (other, lambda it: it)):
        optimizer = optimizer_of(each)
        step = decorate(optimizer.step)
        for _ in range(3):
            for parameter in each.parameters():
                parameter.grad = torch.ones_like(parameter)
            step()
    assert counter.frame_count == 0
    assert_equal_weights(model, other)
