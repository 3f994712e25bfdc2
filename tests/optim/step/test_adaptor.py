"""OptimizerAdaptor: state follows parameters by id; what has no gradient is left alone; nothing is half done."""

import copy
import itertools
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pytest
import torch
from torch import nn

import burnlike as bl
from burnlike.errors import RecordMismatchError, ShapeError
from burnlike.module import params
from burnlike.optim import AdamWConfig, GradientsParams, OptimizerAdaptor, SimpleOptimizer
from burnlike.record import Record

from ..steps import train


def model_of(*sizes: int) -> nn.Sequential:
    return nn.Sequential(*(nn.Linear(i, o) for i, o in itertools.pairwise(sizes)))


def test_the_gradients_of_a_typed_backward_pass_train_a_module() -> None:
    typed, plain = model_of(2, 3, 1), model_of(2, 3, 1)
    plain.load_state_dict(typed.state_dict())
    extra = bl.Tensor(torch.ones(1), bl.Autodiff(bl.Cpu())).require_grad()
    x = torch.rand(4, 2)
    optimizers = [AdamWConfig().init(), AdamWConfig().init()]
    for _ in range(3):
        grads = (typed(bl.Tensor(x, bl.Autodiff(bl.Cpu()))).mean() * extra).backward()
        optimizers[0].step(0.1, typed, GradientsParams.from_grads(grads, typed))
        assert extra.grad(grads) is not None, "only the module's gradients are taken out"
        assert len(grads) == 1
        plain(x).mean().backward()
        optimizers[1].step(0.1, plain, GradientsParams.from_module(plain))
    for ours, theirs in zip(typed.parameters(), plain.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_gradients_are_taken_out_of_the_module() -> None:
    model = model_of(2, 3, 1)
    model[1].requires_grad_(False)
    model(torch.ones(1, 2)).sum().backward()
    expected = model[0].weight.grad
    grads = GradientsParams.from_module(model)
    assert len(grads) == 2
    assert all(parameter.grad is None for parameter in model.parameters())
    weight = params(model)[0]
    assert grads.get(weight) is expected
    assert grads.remove(weight) is expected
    assert grads.get(weight) is None
    assert grads.remove(weight) is None


def test_a_parameter_without_gradient_is_left_alone() -> None:
    model = model_of(2, 3, 1)
    optimizer = AdamWConfig(weight_decay=0.5).init()
    model[1].requires_grad_(False)
    frozen = copy.deepcopy(model[1].state_dict())
    train(model, optimizer)
    assert all(torch.equal(model[1].state_dict()[name], frozen[name]) for name in frozen)
    assert not any(str(param.id) in name for param in params(model[1]) for name in optimizer.to_record().tensors)


def test_state_follows_a_reordered_and_renamed_parameter() -> None:
    model, twin = (model_of(2, 2, 2) for _ in range(2))
    for param, other in zip(params(model), params(twin), strict=True):
        other.assign(param.tensor.clone())
        other.adopt(param.id)
    optimizer, reference = AdamWConfig().init(), AdamWConfig().init()
    train(model, optimizer)
    train(twin, reference)
    swapped = nn.ModuleDict({"last": model[1], "first": model[0]})
    grads_of = {param.id: torch.randn(param.tensor.shape) for param in params(twin)}
    for tree, optim in ((swapped, optimizer), (twin, reference)):
        grads = GradientsParams()
        for param in params(tree):
            grads.register(param, grads_of[param.id])
        optim.step(1e-2, tree, grads)
    assert torch.equal(swapped["first"].weight, twin[0].weight)
    assert torch.equal(swapped["last"].bias, twin[1].bias)


def test_freezing_keeps_the_state_for_later() -> None:
    model = model_of(2, 2)
    optimizer = AdamWConfig().init()
    train(model, optimizer)
    model.requires_grad_(False)
    with pytest.warns(UserWarning, match="has a gradient, so nothing has changed. All are frozen"):
        train(model, optimizer)
    model.requires_grad_(True)
    train(model, optimizer)
    values = optimizer.to_record().values["states"]
    assert set(values.values()) == {2}


def test_a_record_continues_bit_for_bit() -> None:
    model = model_of(3, 4, 2)
    optimizer = AdamWConfig(amsgrad=True).init()
    for _ in range(3):
        train(model, optimizer)
    twin = copy.deepcopy(model)
    fresh = AdamWConfig(amsgrad=True).init().load_record(copy.deepcopy(optimizer.to_record()))
    train(model, optimizer)
    train(twin, fresh)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), twin.parameters(), strict=True))


def test_a_wrong_record_is_refused_and_changes_nothing() -> None:
    model = model_of(3, 2)
    optimizer = AdamWConfig().init()
    train(model, optimizer)
    before = optimizer.to_record()
    with pytest.raises(RecordMismatchError, match="expected an optimizer's record"):
        optimizer.load_record(Record.from_module(model))
    with pytest.raises(RecordMismatchError, match=r"expected names '<ParamId>\.<field>'"):
        optimizer.load_record(Record(tensors={"my layer.weight": torch.ones(2)}, values={"states": {}}))
    incomplete = {name: tensor for name, tensor in before.tensors.items() if "moment_2" not in name}
    with pytest.raises(RecordMismatchError, match=r"'momentum\.moment_2' of AdaptiveMomentumState is missing"):
        optimizer.load_record(Record(tensors=incomplete, values=before.values))
    assert optimizer.to_record().tensors.keys() == before.tensors.keys()


def test_a_gradient_of_another_shape_is_an_error_before_anything_changes() -> None:
    model = model_of(3, 2)
    optimizer = AdamWConfig().init()
    train(model, optimizer)
    weight, bias = params(model)
    with pytest.raises(ShapeError, match=r"the gradient of '0\.bias' has shape \[3\], expected \[2\]"):
        GradientsParams().register(bias, torch.ones(3))
    model(torch.ones(1, 3)).sum().backward()
    grads = GradientsParams.from_module(model)
    bias.assign(torch.zeros(4))
    kept, before = weight.tensor.detach().clone(), copy.deepcopy(optimizer.to_record())
    with pytest.raises(
        ShapeError, match=r"the gradient of '0\.bias' has shape \[2\], expected \[4\]; nothing was changed"
    ):
        optimizer.step(0.1, model, grads)
    assert torch.equal(weight.tensor, kept)
    after = optimizer.to_record()
    assert after.values == before.values
    assert all(torch.equal(after.tensors[name], before.tensors[name]) for name in before.tensors)


def test_tied_weights_are_stepped_once() -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    optimizer = AdamWConfig(weight_decay=0.0).init()
    train(model, optimizer)
    assert len(optimizer.to_record().tensors) == 2
    assert model[1].weight is model[0].weight


B = TypeVar("B", bound=bl.Backend)
D = TypeVar("D", bound=int)


@dataclass
class CountState(Generic[B, D]):
    total: bl.Tensor[B, D]
    steps: int = 0


class CountedSgd(SimpleOptimizer[CountState[Any, Any]]):
    """What a user writes: a formula and a state."""

    state_type = CountState

    def step(
        self, lr: float, tensor: bl.Tensor[B, D], grad: bl.Tensor[B, D], state: CountState[B, D] | None
    ) -> tuple[bl.Tensor[B, D], CountState[B, D]]:
        old = state or CountState(grad * 0.0)
        return tensor - grad * lr, CountState(old.total + grad, old.steps + 1)


def test_a_users_own_optimizer_needs_only_a_formula() -> None:
    model = model_of(2, 1)
    before = model[0].weight.detach().clone()
    optimizer = OptimizerAdaptor(CountedSgd())
    grads = GradientsParams()
    weight = params(model)[0]
    for _ in range(2):
        grads.register(weight, torch.ones(1, 2))
        assert optimizer.step(0.5, model, grads) is model
    torch.testing.assert_close(model[0].weight.detach(), before - 1.0)
    record = optimizer.to_record()
    fresh = OptimizerAdaptor(CountedSgd()).load_record(record)
    assert fresh.to_record().values == record.values
    assert record.values["states"] == {f"{weight.id}.steps": 2}
    assert record.values["paths"] == {str(weight.id): "0.weight"}


class WatchedSgd(CountedSgd):
    """Notes what of its arguments and results requires grad."""

    def __init__(self) -> None:
        self.tracked: list[bool] = []

    def step(
        self, lr: float, tensor: bl.Tensor[B, D], grad: bl.Tensor[B, D], state: CountState[B, D] | None
    ) -> tuple[bl.Tensor[B, D], CountState[B, D]]:
        stepped, kept = super().step(lr, tensor, grad, state)
        self.tracked += [it.inner.requires_grad for it in (tensor, grad, stepped, kept.total)]
        return stepped, kept


def test_a_step_is_in_no_graph_and_leaves_what_is_tracked() -> None:
    model, rule = model_of(2, 1), WatchedSgd()
    before = [*model.parameters()]
    model(torch.ones(1, 2)).sum().backward()
    OptimizerAdaptor(rule).step(0.5, model, GradientsParams.from_module(model))
    assert rule.tracked == [False] * 8
    for parameter, same in zip(model.parameters(), before, strict=True):
        assert parameter is same
        assert (parameter.requires_grad, parameter.is_leaf) == (True, True)
    model(torch.ones(1, 2)).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
