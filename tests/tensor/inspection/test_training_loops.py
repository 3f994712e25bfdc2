"""The loops of PyTorch and of Burn with typed tensors: equal to those with plain ones, bit for bit."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import burnlike as bl
from burnlike import Autodiff, Cpu, Tensor
from burnlike.interop import TorchOptimizer
from burnlike.optim import AdamWConfig, GradientsAccumulator, GradientsParams, LbfgsConfig, SgdConfig

BACKEND = Autodiff(Cpu())
STEPS = 6
Run = tuple[list[float], list[torch.Tensor]]

OPTIMIZERS: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "torch.optim.SGD": lambda it: torch.optim.SGD(it.parameters(), lr=0.1, momentum=0.9),
    "torch.optim.AdamW": lambda it: torch.optim.AdamW(it.parameters(), lr=0.1),
    "TorchOptimizer, SGD": lambda it: TorchOptimizer(it, SgdConfig(), lr=0.1),
    "TorchOptimizer, AdamW": lambda it: TorchOptimizer(it, AdamWConfig(), lr=0.1),
}


def model_of() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


def loss_of(model: nn.Module, step: int, typed: bool) -> Any:
    x: Any = torch.linspace(-1, 1, 12).reshape(4, 3).roll(step)
    y: Any = x[:, :2].square()
    if typed:
        x, y = Tensor(x, BACKEND), Tensor(y, BACKEND)
    return F.mse_loss(model(x), y)


def number(loss: Any) -> float:
    return loss.into_scalar() if isinstance(loss, Tensor) else loss.item()


def assert_same(found: Run, expected: Run) -> None:
    assert found[0] == expected[0]
    assert any(not torch.equal(one, first) for one, first in zip(found[1], model_of().parameters(), strict=True))
    assert all(torch.equal(one, other) for one, other in zip(found[1], expected[1], strict=True))


def run(make: Callable[[nn.Module], Any], typed: bool, micro_batches: int = 1, clip: bool = False) -> Run:
    model, losses = model_of(), []
    optimizer = make(model)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    for step in range(STEPS):
        optimizer.zero_grad()
        for part in range(micro_batches):
            loss = loss_of(model, step + part, typed)
            (loss / micro_batches).backward()
            losses.append(number(loss))
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        schedule.step()
    return losses, list(model.parameters())


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize(("micro_batches", "clip"), [(1, False), (3, False), (3, True)])
def test_torchs_loop(name: str, micro_batches: int, clip: bool) -> None:
    make = OPTIMIZERS[name]
    assert_same(run(make, True, micro_batches, clip), run(make, False, micro_batches, clip))


@pytest.mark.parametrize("typed", [True, False])
def test_gradients_that_are_never_zeroed_pile_up_as_in_torch(typed: bool) -> None:
    model = model_of()
    for step in range(3):
        loss_of(model, step, typed).backward()
    expected = model_of()
    (loss_of(expected, 0, False) + loss_of(expected, 1, False) + loss_of(expected, 2, False)).backward()
    for one, other in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.parametrize("taken_by", ["from_grads", "from_module"])
def test_burns_loop(taken_by: str) -> None:
    def burns(typed: bool) -> Run:
        model, losses = model_of(), []
        optimizer = AdamWConfig().init()
        for step in range(STEPS):
            loss = loss_of(model, step, typed)
            grads = loss.backward()
            if typed and taken_by == "from_grads":
                taken = GradientsParams.from_grads(grads, model)
            else:
                taken = GradientsParams.from_module(model)
            assert all(parameter.grad is None for parameter in model.parameters())
            model = optimizer.step(0.1, model, taken)
            losses.append(number(loss))
        return losses, list(model.parameters())

    assert_same(burns(True), burns(False))


def test_burns_accumulation_of_two_losses() -> None:
    def burns(typed: bool) -> Run:
        model, losses = model_of(), []
        optimizer = AdamWConfig().init()
        for step in range(STEPS):
            accumulator = GradientsAccumulator()
            both = [loss_of(model, step + part, typed) for part in range(2)]
            if typed:
                found = [it.backward() for it in both]
                for grads in found:
                    accumulator.accumulate(model, GradientsParams.from_grads(grads, model))
            else:
                for it in both:
                    it.backward()
                    accumulator.accumulate(model, GradientsParams.from_module(model))
            assert all(parameter.grad is None for parameter in model.parameters())
            optimizer.step(0.1, model, accumulator.grads())
            losses.append(number(both[0]))
        return losses, list(model.parameters())

    assert_same(burns(True), burns(False))


def test_a_step_by_burns_way_between_steps_by_torchs() -> None:
    def mixed(typed: bool) -> Run:
        model, losses = model_of(), []
        torchs, burns = torch.optim.SGD(model.parameters(), lr=0.05), SgdConfig().init()
        for step in range(STEPS):
            torchs.zero_grad()
            loss_of(model, step, typed).backward()
            # A loss of its own, whose gradient is to be in none of torch's steps.
            if typed:
                grads = GradientsParams.from_grads(loss_of(model, step + 1, typed).backward(), model)
            else:
                found = torch.autograd.grad(loss_of(model, step + 1, typed), list(model.parameters()))
                pairs = zip(bl.module.params(model), found, strict=True)
                grads = GradientsParams.of(pairs)
            loss = loss_of(model, step, typed)
            torchs.step()
            burns.step(0.05, model, grads)
            losses.append(number(loss))
        return losses, list(model.parameters())

    assert_same(mixed(True), mixed(False))


def test_a_gradient_scaler() -> None:
    def scaled(typed: bool) -> Run:
        model, losses = model_of(), []
        optimizer = TorchOptimizer(model, AdamWConfig(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for step in range(STEPS):
            optimizer.zero_grad()
            loss = loss_of(model, step, typed)
            scaler.scale(loss.inner if typed else loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(number(loss))
        return losses, list(model.parameters())

    assert_same(scaled(True), scaled(False))


@pytest.mark.parametrize("ours", [True, False])
def test_closures(ours: bool) -> None:
    def run(typed: bool) -> Run:
        model, losses = model_of(), []
        optimizer: Any = TorchOptimizer(model, LbfgsConfig(), lr=0.5) if ours else torch.optim.LBFGS(model.parameters())

        def closure() -> Any:
            optimizer.zero_grad()
            loss = loss_of(model, 0, typed)
            loss.backward()
            losses.append(number(loss))
            return loss

        for _ in range(2):
            optimizer.step(closure)
        return losses, list(model.parameters())

    assert_same(run(True), run(False))


def test_leaves_that_are_no_parameters() -> None:
    w = Tensor(torch.tensor([4.0, -2.0]), BACKEND).require_grad()
    plain = torch.tensor([4.0, -2.0], requires_grad=True)
    theirs = plain.detach().clone().requires_grad_()
    optimizer = torch.optim.SGD([w.inner, plain], lr=0.1)
    expected = torch.optim.SGD([theirs], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (w * w).sum().backward()
        (Tensor(plain, BACKEND) * plain).sum().backward()
        optimizer.step()
        expected.zero_grad()
        (theirs * theirs).sum().backward()
        expected.step()
    assert torch.equal(w.inner, theirs)
    assert torch.equal(plain, theirs)


def test_a_step_without_any_gradient_says_so_once() -> None:
    model = model_of()
    loss_of(model, 0, True).backward(create_graph=True)
    steps: list[Callable[[], Any]] = []
    for optimizer in (TorchOptimizer(model, SgdConfig(), lr=0.1), TorchOptimizer(model, LbfgsConfig(), lr=0.1)):
        steps.append(lambda optimizer=optimizer: optimizer.step(lambda: loss_of(model, 0, True)))
    adaptor = SgdConfig().init()
    steps.append(lambda: adaptor.step(0.1, model, GradientsParams.from_module(model)))
    for step in steps:
        with pytest.warns(UserWarning, match=r"Is there a loss\.backward\(\).*leaves none in \.grad"):
            step()
        step()
