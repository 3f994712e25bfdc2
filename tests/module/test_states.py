"""A state is never in the graph: what is assigned to a buffer is detached."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import burnlike as bl
from burnlike import Autodiff, Cpu, Tensor, mlax

SHAPE = (3,)


class Mean(bl.Module):
    """A running mean, updated as users write it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("mean", torch.zeros(SHAPE))

    mean: Any

    def forward(self, x: Any) -> Any:
        x = self.layer(x)
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return x - self.mean


class Typed(Mean):
    """The same with typed tensors."""

    def forward(self, x: Any) -> Any:
        x = self.layer(x)
        mean = Tensor(self.mean, x.backend).mul_scalar(0.9) + x.mean_dim(0).squeeze_dim(0).mul_scalar(0.1)
        self.mean = mean.inner
        return x - mean.unsqueeze_dim(0)


class Plain(nn.Module):
    """torch's own module: its buffer becomes tracked, and that is torch's affair."""

    mean: Any
    forward = Mean.forward

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("mean", torch.zeros(SHAPE))


def rows(step: int) -> torch.Tensor:
    return torch.linspace(-1, 1, 12).reshape(4, 3).roll(step)


@pytest.mark.parametrize("typed", [False, True])
def test_a_running_mean_that_is_assigned_in_forward(typed: bool) -> None:
    module = Typed() if typed else Mean()
    expected = torch.zeros(SHAPE)
    for step in range(3):
        x: Any = Tensor(rows(step), Autodiff(Cpu())) if typed else rows(step)
        module(x).sum().backward()
        expected = 0.9 * expected + 0.1 * module.layer(rows(step)).mean(0).detach()
        assert type(module.mean) is torch.Tensor
        assert not module.mean.requires_grad
        torch.testing.assert_close(module.mean, expected)
    assert [name for name, _ in module.named_buffers()] == ["mean"]
    copied = module.clone()
    assert torch.equal(copied.mean, module.mean)


def computed() -> torch.Tensor:
    return torch.ones(SHAPE, requires_grad=True) * 2.0


def declared(value: torch.Tensor) -> Any:
    module: Any = bl.Module()
    module.mean = bl.Param.running(torch.zeros(SHAPE))
    module.mean = value
    return module


def registered(value: torch.Tensor) -> Any:
    module = bl.Module()
    module.register_buffer("mean", value)
    return module


def by_handle(value: torch.Tensor) -> Any:
    module = Mean()
    (state,) = [param for param in bl.module.params(module) if param.kind == "state"]
    state.assign(value)
    return module


def by_handle_of_a_plain_module(value: torch.Tensor) -> Any:
    module = Plain()
    module(rows(0))
    (state,) = [param for param in bl.module.params(module) if param.kind == "state"]
    state.assign(value)
    return module


class Kept(mlax.Module):
    """A module of handles."""

    def __init__(self) -> None:
        self.mean: Any = mlax.Parameter(False, torch.zeros(SHAPE))


def by_mlax(value: torch.Tensor) -> Any:
    module = Kept()
    module.mean.data = value
    return module


def not_saved(value: torch.Tensor) -> Any:
    module: Any = bl.Module()
    module.register_buffer("mean", torch.zeros(SHAPE), persistent=False)
    module.mean = value
    return module


@pytest.mark.parametrize(
    "assigned",
    [declared, registered, by_handle, by_handle_of_a_plain_module, by_mlax, not_saved],
)
def test_every_way_of_setting_a_state_detaches(assigned: Callable[..., Any]) -> None:
    held = assigned(computed()).mean
    tensor = held.data if isinstance(held, mlax.Parameter) else held
    assert not tensor.requires_grad
    assert torch.equal(tensor, torch.full(SHAPE, 2.0))


def test_a_plain_tensor_of_a_module_keeps_its_history() -> None:
    module: Any = bl.Module()
    module.hidden = computed()
    assert module.hidden.grad_fn is not None


def test_tracked_states_of_plain_modules_are_copied_without_their_history() -> None:
    module = Plain()
    module(rows(0))
    assert module.mean.grad_fn is not None
    for copied in (bl.module.clone(module), bl.module.fork(module, "cpu"), bl.module.map(module, lambda it: it.tensor)):
        assert not copied.mean.requires_grad
        assert torch.equal(copied.mean, module.mean)
        assert copied.mean.data_ptr() != module.mean.data_ptr()
    in_place = Mean()
    in_place.mean.add_(computed())
    assert torch.equal(in_place.clone().mean, in_place.mean)


def test_a_state_under_compile() -> None:
    module = Mean()
    compiled = torch.compile(module, backend="eager", fullgraph=True)
    for step in range(2):
        compiled(rows(step)).sum().backward()
    assert not module.mean.requires_grad
