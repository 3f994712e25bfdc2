"""OptimizerAdaptor: state follows parameters by id, contiguous or not; nothing is half done."""

import copy
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pytest
import torch
from torch import Tensor, nn

import burnlike as bl
from burnlike import optim
from burnlike.errors import RecordMismatchError, ShapeError
from burnlike.module import params
from burnlike.optim import (
    AdamWConfig,
    GradientsParams,
    ModuleOptimizerConfig,
    MomentumConfig,
    OptimizerAdaptor,
    SimpleOptimizer,
)
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
    for tree, adaptor in ((swapped, optimizer), (twin, reference)):
        grads = GradientsParams()
        for param in params(tree):
            grads.register(param, grads_of[param.id])
        adaptor.step(1e-2, tree, grads)
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


RULES: dict[str, ModuleOptimizerConfig] = {
    "Sgd": optim.SgdConfig(momentum=MomentumConfig(), weight_decay=0.1),
    "Adam": optim.AdamConfig(amsgrad=True),
    "AdamW": optim.AdamWConfig(cautious_weight_decay=True),
    "Lion": optim.LionConfig(weight_decay=0.1),
    "AdaGrad": optim.AdaGradConfig(weight_decay=0.1),
    "RmsProp": optim.RmsPropConfig(centered=True),
    "Adan": optim.AdanConfig(weight_decay=0.1),
    "Lamb": optim.LambConfig(weight_decay=0.1),
    "Adafactor": optim.AdafactorConfig(weight_decay=0.1),
    "ScheduleFreeAdamW": optim.ScheduleFreeAdamWConfig(weight_decay=0.1),
    "Muon": optim.MuonConfig(weight_decay=0.1),
}
TOLERANCE = {torch.float64: 1e-13, torch.float32: 1e-5, torch.bfloat16: 2**-6}


def values_for(config: ModuleOptimizerConfig, dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(4, 6), (12, 8)] if isinstance(config, optim.MuonConfig) else [(4, 6), (12, 8), (4, 3, 5, 5)]
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def rearranged(values: Sequence[Tensor]) -> list[Tensor]:
    """A transposed matrix, every second row and column of a larger one, and an image with its channels last."""
    transposed = values[0].mT.contiguous().mT
    large = torch.zeros(2 * values[1].shape[0], 2 * values[1].shape[1], dtype=values[1].dtype)
    large[::2, ::2] = values[1]
    return [transposed, large[::2, ::2], *(it.to(memory_format=torch.channels_last) for it in values[2:])]


def one_step(model: nn.Module, optimizer: Any, seed: int, *, is_rearranged: bool) -> None:
    for place, parameter in enumerate(model.parameters()):
        generator = torch.Generator().manual_seed(10 * seed + place)
        grad = torch.randn(parameter.shape, generator=generator).to(parameter.dtype)
        parameter.grad = torch.empty_like(parameter).copy_(grad) if is_rearranged and seed % 2 else grad
    optimizer.step(0.01, model, GradientsParams.from_module(model))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("config", RULES.values(), ids=RULES)
def test_steps_go_by_place_not_by_memory(config: ModuleOptimizerConfig, dtype: torch.dtype) -> None:
    values = values_for(config, dtype)
    plain, other = nn.ParameterList([it.clone() for it in values]), nn.ParameterList(rearranged(values))
    layout = [(parameter.stride(), parameter.data_ptr()) for parameter in other]
    optimizer, its_optimizer = config.init(), config.init()
    for seed in range(3):
        one_step(plain, optimizer, seed, is_rearranged=False)
        one_step(other, its_optimizer, seed, is_rearranged=True)
    again = config.init().load_record(optimizer.to_record(), other)  # states of contiguous parameters, by path
    one_step(plain, optimizer, 3, is_rearranged=False)
    one_step(other, again, 3, is_rearranged=True)
    for one, its in zip(plain, other, strict=True):
        torch.testing.assert_close(its, one, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    assert [(parameter.stride(), parameter.data_ptr()) for parameter in other] == layout


@pytest.mark.parametrize("search", [None, "StrongWolfe"])
def test_lbfgs_goes_by_place_not_by_memory(search: Any) -> None:
    x = torch.randn(5, 3, 6, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    torch.manual_seed(2)
    plain = nn.Conv2d(3, 4, 3, dtype=torch.float64)
    other = nn.Conv2d(3, 4, 3, dtype=torch.float64).to(memory_format=torch.channels_last)
    other.load_state_dict(plain.state_dict())
    strides = other.weight.stride()

    def closure(model: nn.Module) -> tuple[Tensor, GradientsParams]:
        loss = (model(x).tanh() - 0.5).square().mean()
        loss.backward()
        return loss, GradientsParams.from_module(model)

    for model in (plain, other):
        optim.LbfgsConfig(max_iter=6, line_search_fn=search).init().step(0.5, model, closure)
    torch.testing.assert_close(other.weight, plain.weight, rtol=1e-10, atol=1e-12)
    assert other.weight.stride() == strides != plain.weight.stride()
