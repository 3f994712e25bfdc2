"""Training and validation, frozen and trainable."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune

import burnlike
from burnlike.backend import Autodiff, Cpu
from burnlike.errors import ModuleTreeError, ParamPathError, TensorTypeError
from burnlike.module import Module, Param, ParamGroup, freeze, no_grad, params, train, unfreeze, valid

from ..cases import case


class Simple(Module):
    """Its own parameter, a plain layer with two, a container and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.linear = nn.Linear(4, 4)
        self.layers = [nn.Sequential(nn.Linear(4, 4)), nn.BatchNorm1d(4)]

    def forward(self, x: Tensor) -> Tensor:
        x = self.linear(x) * self.scale
        for layer in self.layers:
            x = layer(x)
        return x


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.BatchNorm1d(4)), nn.Linear(4, 4))


@pytest.fixture(params=[plain, Simple], ids=["plain", "burnlike"])
def model(request: pytest.FixtureRequest) -> nn.Module:
    return request.param()


def flags(module: nn.Module) -> dict[str, tuple[bool, bool]]:
    """Of each parameter: whether it requires grad now, and whether it is meant to be trained."""
    return {param.path: (param.requires_grad, param.trainable) for param in params(module, "weight")}


def only(module: nn.Module) -> tuple[bool, bool]:
    (found,) = set(flags(module).values())
    return found


@case("module/valid_train_stateful")
def test_the_intent_survives_valid_and_train(model: nn.Module) -> None:
    assert only(model) == (True, True)
    seen = []
    for step in (valid, train, no_grad, valid, train):
        model = step(model)
        seen.append(only(model))
    assert seen == [(False, True), (True, True), (False, False), (False, False), (False, False)]


@case("module/valid_idempotent")
def test_valid_of_a_valid_module_is_the_same_again(model: nn.Module) -> None:
    twice = valid(valid(model))
    assert only(twice) == (False, True)
    assert not twice.training
    assert [param.id for param in params(twice)] == [param.id for param in params(model)]
    assert only(train(twice)) == (True, True)


@case("module/valid_on_plain_device")
def test_valid_of_what_is_not_tracked_changes_no_value_and_no_flag(model: nn.Module) -> None:
    model.requires_grad_(False).eval()
    x = torch.randn(3, 4)
    view = valid(model)
    assert torch.equal(view(x), model(x))
    assert only(view) == (False, False)
    assert not view(x).requires_grad


def test_valid_is_a_view_that_leaves_the_original_alone(model: nn.Module) -> None:
    view = valid(model)
    assert model.training
    assert only(model) == (True, True)
    assert type(view) is type(model)
    for ours, theirs in zip(params(view), params(model), strict=True):
        assert ours.id == theirs.id
        assert ours.tensor.data_ptr() == theirs.tensor.data_ptr()
    with torch.no_grad():
        params(model)[0].tensor.add_(1)
    assert torch.equal(params(view)[0].tensor, params(model)[0].tensor)
    x = torch.randn(3, 4)
    assert not view(x).requires_grad
    assert torch.equal(view(x), model.eval()(x))


@pytest.mark.parametrize(
    "through",
    [
        lambda m: m,
        lambda m: burnlike.module.clone(m),
        lambda m: burnlike.module.fork(m, "cpu"),
        lambda m: pickle.loads(pickle.dumps(m)),
        lambda m: burnlike.module.map(m, lambda param: param.tensor * 2),
        lambda m: m.to(torch.float64),
    ],
    ids=["itself", "clone", "fork", "pickle", "map", "to"],
)
def test_a_valid_module_trains_again_whatever_it_passed_through(
    model: nn.Module, through: Callable[[Any], Any]
) -> None:
    for param in list(params(model, "weight"))[:2]:
        param.set_require_grad(False)
    expected = {path: (flag, flag) for path, (flag, _) in flags(model).items()}
    new = through(valid(model))
    assert {path: (False, intent) for path, (_, intent) in expected.items()} == flags(new)
    assert flags(train(new)) == expected
    assert all(module.training for module in new.modules())


def test_the_train_method_of_a_module_reaches_plain_layers_in_it() -> None:
    model = Simple()
    view = model.valid()
    assert view.train() is view
    assert only(view) == (True, True)
    part = model.valid()
    part.layers.train()
    assert flags(part)["layers.0.0.weight"] == (True, True)
    assert flags(part)["linear.weight"] == (False, True)


def test_eval_and_train_of_torch_change_no_flag(model: nn.Module) -> None:
    first, second, *_ = model.parameters()
    first.requires_grad_(False)
    before = flags(model)
    model.eval()
    model.train()
    assert flags(model) == flags(train(model)) == before
    view = train(valid(model))
    second = list(view.parameters())[1].requires_grad_(False)
    view.eval()
    view.train()
    train(view)
    assert not second.requires_grad
    assert flags(model) == before


def test_freezing_a_valid_module_is_for_when_it_trains(model: nn.Module) -> None:
    view = valid(model)
    assert freeze(view) is view
    assert only(view) == (False, False)
    assert only(model) == (True, True)
    assert only(train(view)) == (False, False)
    again = valid(view)
    unfreeze(again)
    assert only(again) == (False, True)
    assert only(view) == (False, False)
    assert only(train(again)) == (True, True)


@case("module/unfreeze_group")
def test_unfreezing_a_group_thaws_only_that() -> None:
    model = nn.Linear(4, 4)
    no_grad(model)
    unfreeze(model, ParamGroup.from_path("weight"))
    assert flags(model) == {"weight": (True, True), "bias": (False, False)}
    freeze(model, ParamGroup.from_path("weight"))
    assert only(model) == (False, False)


def test_groups_on_a_burnlike_module() -> None:
    model = Simple()
    assert model.freeze(ParamGroup.from_predicate("layers")) is model
    frozen = {path for path, state in flags(model).items() if state == (False, False)}
    assert frozen == {path for path in flags(model) if path.startswith("layers.")}
    assert model.unfreeze() is model
    assert only(model) == (True, True)


@case("grad/no_grad")
def test_no_gradient_after_no_grad() -> None:
    model = Simple().no_grad()
    x = torch.randn(3, 4, requires_grad=True)
    model(x).sum().backward()
    assert x.grad is not None
    assert all(parameter.grad is None for parameter in model.parameters())
    train(model)
    assert only(model) == (False, False)


def test_requires_grad_sets_the_present_and_what_train_restores() -> None:
    view = Simple().valid()
    assert view.requires_grad_() is view
    assert only(view) == (True, True)
    view.requires_grad_(False)
    assert only(view) == (False, False)
    assert only(view.train()) == (False, False)
    whole = Simple()
    whole.register_parameter("table", nn.Parameter(torch.arange(3), requires_grad=False))
    assert not whole.requires_grad_().table.requires_grad


def test_a_shared_layer_and_a_tied_parameter_stay_so() -> None:
    model = Simple()
    model.linear.weight = model.layers[0][0].weight
    model.again = model.linear
    view = model.valid()
    assert view.again is view.linear
    assert view.linear.weight is view.layers[0][0].weight
    assert only(view.train()) == (True, True)
    assert view.linear.weight is not model.linear.weight


@pytest.mark.parametrize(
    "change",
    [
        lambda layer: parametrizations.weight_norm(layer),
        lambda layer: parametrizations.orthogonal(layer),
        lambda layer: prune.l1_unstructured(layer, "weight", amount=2),
    ],
    ids=["weight_norm", "orthogonal", "pruned"],
)
def test_tensors_that_torch_computes_others_from_train_again(change: Callable[[nn.Linear], Any]) -> None:
    model = nn.Sequential(change(nn.Linear(4, 4)))
    view = valid(model)
    assert only(view) == (False, True)
    x = torch.randn(2, 4)
    torch.testing.assert_close(view(x), model(x))
    assert not view(x).requires_grad
    assert only(train(view)) == (True, True)
    view(x).sum().backward()
    assert all(parameter.grad is not None for parameter in view.parameters())
    assert all(parameter.grad is None for parameter in model.parameters())


class Lazy(Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = Param.uninitialized(lambda device: torch.full((2,), 3.0, device=device), [2])


def test_a_lazy_parameter_gets_its_values_to_be_shared() -> None:
    model = Lazy()
    view = model.valid()
    assert only(view) == (False, True)
    assert only(model) == (True, True)
    assert view.weight.data_ptr() == model.weight.data_ptr()
    assert torch.equal(view.weight, torch.full((2,), 3.0))


def test_plain_tensors_of_a_valid_module_are_not_tracked() -> None:
    model = Simple()
    model.offset = torch.ones(2, requires_grad=True)
    model.many = [torch.ones(2, requires_grad=True)]
    model.typed = burnlike.Tensor(torch.ones(2, requires_grad=True), Autodiff(Cpu()))
    model.register_buffer("table", torch.ones(2, requires_grad=True))
    view = model.valid()
    assert not any(tensor.requires_grad for tensor in (view.offset, view.many[0], view.table))
    assert view.typed.backend == Cpu()
    with pytest.raises(TensorTypeError):
        view.typed.sum().backward()
    assert model.offset.requires_grad
    assert model.table.requires_grad
    assert model.typed.backend == Autodiff(Cpu())
    assert view.offset.data_ptr() == model.offset.data_ptr()


def test_of_a_wrapper_it_is_a_view_of_the_inner_module() -> None:
    model = Simple()
    assert type(valid(torch.compile(model, backend="eager"))) is Simple
    assert type(valid(nn.DataParallel(model))) is Simple


def test_a_group_that_fails_changes_nothing(model: nn.Module) -> None:
    before = flags(model)
    for change in (freeze, unfreeze):
        with pytest.raises(ParamPathError, match="no parameter 'nowhere'"):
            change(model, ParamGroup.from_path("nowhere"))
        with pytest.raises(ModuleTreeError):
            change(model, ParamGroup.from_predicate(lambda param: 1 / 0))
    assert flags(model) == before
