"""The states that a TorchOptimizer shows are those that it steps, and go with copies of it."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from burnlike.errors import RecordMismatchError
from burnlike.interop import TorchOptimizer
from burnlike.module.tree.walk import Walk
from burnlike.optim import (
    OptimizerAdaptor,
    ScheduleFreeAdamWConfig,
)

from .models import CONFIG, GROUPED, assert_equal_weights, model_of, optimizer_of, train, weights_of


def test_states_are_live() -> None:
    model = model_of()
    optimizer = optimizer_of(model)
    assert not optimizer.state
    assert dict(optimizer.state[model[0].weight]) == {}
    assert model[0].weight not in optimizer.state
    train(model, optimizer, 2)
    state = optimizer.state[model[0].weight]
    moment = state["momentum.moment_1"]
    before = moment.clone()
    train(model, optimizer, 1, 2)
    assert state["momentum.time"] == 3
    assert optimizer.state[model[0].weight]["momentum.moment_1"].data_ptr() == moment.data_ptr()
    assert not torch.equal(moment, before)
    assert len(optimizer.state) == 6
    assert all(it is parameter for it, parameter in zip(optimizer.state, model.parameters(), strict=True))
    assert optimizer.state.get(torch.ones(1)) is None


def test_what_is_written_into_states_is_taken_over() -> None:
    model, other = model_of(), model_of()
    optimizer, control = optimizer_of(model), optimizer_of(other)
    train(model, optimizer, 2)
    train(other, control, 2)
    for parameter, state in optimizer.state.items():  # as Lightning moves them
        optimizer.state[parameter] = type(state)({name: copy.deepcopy(value) for name, value in state.items()})
    train(model, optimizer, 1, 2)
    train(other, control, 1, 2)
    assert_equal_weights(model, other)
    optimizer.state[model[0].bias]["momentum.time"] = 7
    assert optimizer.state_dict()["state"][1]["momentum.time"] == 7
    with pytest.raises(RecordMismatchError, match="no_such"):
        optimizer.state[model[0].bias]["momentum.no_such"] = 7
    del optimizer.state[model[0].bias]
    assert model[0].bias not in optimizer.state
    optimizer.state = {}
    assert not optimizer.state


def test_a_copy_goes_on_alike() -> None:
    model = model_of()
    optimizer = optimizer_of(model, GROUPED)
    train(model, optimizer, 2)
    twins = [copy.deepcopy((model, optimizer)), pickle.loads(pickle.dumps((model, optimizer)))]
    train(model, optimizer, 2, 2)
    for twin, its_optimizer in twins:
        assert its_optimizer.param_groups[0]["params"][0] is twin[0].weight
        train(twin, its_optimizer, 2, 2)
        assert_equal_weights(twin, model)


def test_states_of_tensors_that_the_module_no_longer_has_are_not_found() -> None:
    model = model_of()
    optimizer = optimizer_of(model)
    train(model, optimizer, 1)
    bias = model[4].bias
    del model[4].bias
    model[4].register_parameter("bias", None)
    assert bias not in optimizer.state
    weight = model[2].weight
    del model[2].weight
    assert weight not in optimizer.state
    assert len(optimizer.state) == 4


USES: dict[str, Callable[[TorchOptimizer], Any]] = {
    "state dict": lambda it: it.state_dict(),
    "all states": lambda it: [dict(state) for state in it.state.values()],
    "one after the other": lambda it: [it.state[tensor] for tensor in it.param_groups[0]["params"]],
    "replaced": lambda it: setattr(it, "state", {tensor: state.copy() for tensor, state in it.state.items()}),
}


@pytest.mark.parametrize("use", USES)
def test_the_module_is_not_looked_through_for_each_parameter(use: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def count(layers: int) -> int:
        model = nn.Sequential(*(nn.Linear(1, 1).double() for _ in range(layers)))
        optimizer = optimizer_of(model)
        model(torch.ones(1, 1).double()).sum().backward()
        optimizer.step()
        looked: list[int] = []
        values = Walk.values
        with monkeypatch.context() as patch:
            patch.setattr(Walk, "values", lambda walk: [looked.append(1), values(walk)][1])
            USES[use](optimizer)
        return len(looked)

    assert count(20) == count(2)


def test_an_adaptor_with_states_is_taken() -> None:
    model = model_of()
    first = optimizer_of(model)
    train(model, first, 2)
    other = copy.deepcopy(model)
    adaptor: OptimizerAdaptor[Any] = CONFIG.init().load_record(first.adaptor.to_record(), other)
    second = TorchOptimizer(other, adaptor, lr=0.01)
    train(model, first, 2, 2)
    train(other, second, 2, 2)
    assert_equal_weights(model, other)


def test_frozen_parameters_are_left_alone_until_they_have_a_gradient() -> None:
    model = model_of()
    model[0].requires_grad_(False)
    optimizer = optimizer_of(model)
    before = model[0].weight.detach().clone()
    train(model, optimizer, 2)
    assert torch.equal(model[0].weight, before)
    model[0].requires_grad_(True)
    train(model, optimizer, 1)
    assert optimizer.state[model[0].weight]["momentum.time"] == 1
    assert not torch.equal(model[0].weight, before)


def test_weights_to_evaluate_with_are_put_in_and_taken_out() -> None:
    model = model_of()
    optimizer = optimizer_of(model, ScheduleFreeAdamWConfig())
    train(model, optimizer, 3)
    before = weights_of(model)
    optimizer.eval()
    assert not torch.equal(model[0].weight, before[0])
    optimizer.train()
    assert all(torch.equal(now, then) for now, then in zip(model.parameters(), before, strict=True))
