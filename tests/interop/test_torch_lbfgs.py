"""TorchLbfgs behaves as torch.optim.LBFGS."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from burnlike.errors import ArgumentError, ConfigError, RecordMismatchError
from burnlike.interop import TorchLbfgs, TorchOptimizer
from burnlike.optim import LbfgsConfig

from .models import assert_equal_weights, loss_of, model_of, optimizer_of, train
from .test_state_dicts import saved_and_loaded, swapped

CONFIG = LbfgsConfig(max_iter=4, history_size=5)


def fit(model: nn.Module, optimizer: Any, steps: int) -> list[float]:
    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        return loss

    return [optimizer.step(closure).item() for _ in range(steps)]


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_steps_are_those_of_torch(search: str | None) -> None:
    model, other = model_of(), model_of()
    config = CONFIG.replace(line_search_fn=search and "StrongWolfe")
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
    optimizer = TorchLbfgs(model, CONFIG, lr=0.1)
    fit(model, optimizer, 2)
    twin = copy.deepcopy(model)
    resumed = TorchLbfgs(twin, CONFIG, lr=0.5)
    resumed.load_state_dict(saved_and_loaded(optimizer.state_dict()))
    copied, its_optimizer = copy.deepcopy((model, optimizer))
    losses = fit(model, optimizer, 2)
    assert fit(twin, resumed, 2) == losses
    assert fit(copied, its_optimizer, 2) == losses
    assert_equal_weights(twin, model)


def test_a_torch_optimizer_of_its_config_is_one() -> None:
    model, other = model_of(), model_of()
    optimizer: Any = TorchOptimizer(model, CONFIG, lr=0.1)
    assert type(optimizer) is TorchLbfgs
    assert type(TorchOptimizer(module=model, config=CONFIG, lr=0.1)) is TorchLbfgs
    assert fit(model, optimizer, 2) == fit(other, TorchLbfgs(other, CONFIG, lr=0.1), 2)


def test_hooks_are_called() -> None:
    model = model_of()
    optimizer = TorchLbfgs(model, CONFIG)
    called: list[str] = []
    optimizer.register_step_post_hook(lambda *_: called.append("after"))
    optimizer.register_load_state_dict_post_hook(lambda _: called.append("loaded"))
    fit(model, optimizer, 1)
    optimizer.load_state_dict(optimizer.state_dict())
    assert called == ["after", "loaded"]


def test_what_can_not_be_done_is_refused() -> None:
    model = model_of()
    optimizer = TorchLbfgs(model, CONFIG, lr=0.1)
    with pytest.raises(ArgumentError, match="needs a closure"):
        optimizer.step()
    with pytest.raises(ConfigError, match="stepped together"):
        optimizer.add_param_group({"params": []})
    with pytest.raises(ArgumentError, match="learning rate"):
        TorchLbfgs(model, CONFIG, lr=-1.0)
    with pytest.raises(ArgumentError, match="no parameters"):
        TorchLbfgs(nn.Tanh(), CONFIG)
    with pytest.raises(ConfigError, match="freeze those that are not to change"):
        TorchOptimizer(model, CONFIG, lr=0.1, params=model.parameters())
    fit(model, optimizer, 1)
    with pytest.raises(RecordMismatchError, match="fits no other order"):
        TorchLbfgs(swapped(model_of()), CONFIG).load_state_dict(
            {**optimizer.state_dict(), "param_groups": [{"param_names": ["a"]}]}
        )
    with pytest.raises(RecordMismatchError, match="fits no other order"):
        TorchLbfgs(swapped(copy.deepcopy(model)), CONFIG).load_record(optimizer.into_record())
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
