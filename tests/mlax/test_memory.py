"""What the functions of modules make is free as soon as no one holds it, without a garbage collection."""

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from burnlike import func, mlax
from tests.mlax.samples import Bar


class Recurrent(nn.Module):
    """Layers that refer to their parameters, a hook, and a reference to another part."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 2)
        self.norm = nn.BatchNorm1d(2)
        self.known = [self.lstm]
        self.norm.register_forward_hook(lambda module, inputs, output: output * 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.known[0](x)[0])


def partitioned(module: Any) -> tuple[Any, ...]:
    return mlax.partition(module)


def combined(module: Any) -> tuple[Any, ...]:
    return (mlax.combine(*mlax.partition(module)), mlax.overlay(module, mlax.filter(module, False)))


def mapped(module: Any) -> tuple[Any, ...]:
    return (mlax.map(module, lambda p: p.data),)


def applied(module: Any) -> tuple[Any, ...]:
    return (mlax.apply(module, torch.ones(2, 3))[1],)


def differentiated(module: Any) -> tuple[Any, ...]:
    t, n = mlax.partition(module)

    def loss(t: nn.Module) -> tuple[torch.Tensor, nn.Module]:
        y, after = func.fwd(t, n, x=torch.ones(2, 3))
        return y.sum(), after

    gradient, after = func.grad(loss, has_aux=True)(t)
    return gradient, after


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("make", [Bar, Recurrent])
@pytest.mark.parametrize("function", [partitioned, combined, mapped, applied, differentiated])
def test_new_trees_die_with_their_last_reference(
    make: Callable[[], nn.Module], function: Callable[[nn.Module], tuple[nn.Module, ...]]
) -> None:
    module = make()
    made = function(module)
    for tree in made:
        mlax.leaves(tree)
    parts = [weakref.ref(part) for tree in made for part in tree.modules()]
    assert len(parts) >= 3
    del made, tree
    assert [found for part in parts if (found := part()) is not None] == []
