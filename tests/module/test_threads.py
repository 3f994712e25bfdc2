"""Threads that meet a module for the first time at the same time: what is decided then is decided once."""

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import burnlike as bl
from burnlike.backend import Autodiff, Cpu
from burnlike.mlax import Module as MlaxModule, Parameter
from burnlike.module import Module, Param, params, seed_param_ids, valid
from burnlike.module.identity.field_metadata import fields_with
from burnlike.module.tree.walk import walk_of, weights
from burnlike.optim import GradientsAccumulator, GradientsParams, SgdConfig
from burnlike.tensor.core import spec

from .fields import ids

THREADS = 4


@pytest.fixture(autouse=True)
def switching() -> Iterator[None]:
    """Threads take turns after each microsecond."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(work: Callable[[int], Any]) -> list[Any]:
    """What `work` gave in each thread, all begun at once; raises what one of them raised."""
    barrier, found, raised = threading.Barrier(THREADS), {}, []

    def run(number: int) -> None:
        try:
            barrier.wait()
            found[number] = work(number)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]
    return [found[number] for number in range(THREADS)]


def deep(layers: int = 30) -> nn.Sequential:
    return nn.Sequential(*(nn.Linear(2, 2) for _ in range(layers)))


def test_threads_that_traverse_one_module_find_the_same_ids() -> None:
    for _ in range(5):
        model = deep()
        first, *others = in_threads(lambda number, model=model: ids(model))
        assert all(other == first for other in others)
        assert ids(model) == first
        assert len(set(first.values())) == len(first)


def test_threads_that_traverse_a_module_and_parts_of_it_find_the_same_ids() -> None:
    for _ in range(5):
        model = deep()
        whole = nn.Sequential(model, nn.Linear(2, 2))
        roots = [whole, model, nn.Sequential(model), whole]
        found = in_threads(lambda number, roots=roots: list(ids(roots[number]).values()))
        assert all(some == list(ids(roots[number]).values()) for number, some in enumerate(found))
        assert len({tuple(some[:60]) for some in found}) == 1


def test_threads_get_the_same_kept_traversal() -> None:
    for _ in range(5):
        model = deep()
        found = in_threads(lambda number, model=model: (weights(model), walk_of(model).by_path))
        assert len({(id(listed), id(paths)) for listed, paths in found}) == 1


def test_threads_draw_different_ids_for_different_modules() -> None:
    def drawn(number: int) -> list[int]:
        return [number for _ in range(20) for number in ids(deep(2)).values()]

    for seed in (None, 3):
        if seed is not None:
            seed_param_ids(seed)
        numbers = [number for some in in_threads(drawn) for number in some]
        assert len(set(numbers)) == len(numbers)


def test_handles_of_an_mlax_module_have_one_id_in_all_threads() -> None:
    class Net(MlaxModule):
        def __init__(self) -> None:
            self.layers = [Parameter(True, torch.ones(1)) for _ in range(10)]
            self.inner = nn.Linear(2, 2)

    for _ in range(5):
        net = Net()
        first, *others = in_threads(lambda number, net=net: [leaf.id for leaf in net.leaves()])
        assert all(other == first for other in others)


def test_fields_that_threads_declare_are_all_there() -> None:
    class Net(Module):
        pass

    for _ in range(20):
        net = Net()

        def declare(number: int, net: Module = net) -> None:
            for index in range(5):
                setattr(net, f"w{number}{index}", Param.from_data([1.0]))
                setattr(net, f"values{number}{index}", [1])

        in_threads(declare)
        assert len(ids(net)) == 5 * THREADS
        assert len(fields_with(net, "holds", "list")) == 5 * THREADS


def test_a_backends_specs_are_one_family_in_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        monkeypatch.setattr(spec, "_FAMILIES", {})
        families = in_threads(lambda number: spec.family_of(Autodiff(Cpu())))
        assert len(set(map(id, families))) == 1


def test_valid_views_made_in_threads_have_the_models_ids() -> None:
    model = deep()
    found = in_threads(lambda number: ids(valid(model)))
    assert all(some == ids(model) for some in found)


def test_gradients_of_threads_add_up_to_those_of_one_batch() -> None:
    """Each thread differentiates its part of the batch of a model that nobody has traversed; then one step."""
    torch.manual_seed(0)
    x, y = torch.randn(THREADS * 3, 2), torch.randn(THREADS * 3, 1)
    for _ in range(8):
        model = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
        expected = [param.detach().double() for param in model.parameters()]
        double = [param.requires_grad_() for param in expected]
        hidden = torch.tanh(torch.nn.functional.linear(x.double(), double[0], double[1]))
        loss = (torch.nn.functional.linear(hidden, double[2], double[3]) - y.double()).square().mean()
        stepped = [param - 0.5 * grad for param, grad in zip(double, torch.autograd.grad(loss, double), strict=True)]

        backend = Autodiff(Cpu())

        def differentiate(number: int, model: nn.Module = model, backend: Any = backend) -> GradientsParams:
            part = slice(3 * number, 3 * number + 3)
            loss = (model(bl.Tensor(x[part], backend)) - bl.Tensor(y[part], backend)).powi(2).mean()
            return GradientsParams.from_grads(loss.backward(), model)

        accumulator = GradientsAccumulator()
        for grads in in_threads(differentiate):
            accumulator.accumulate(model, grads, items=3)
        SgdConfig().init().step(0.5, model, accumulator.grads())
        for param, wanted in zip(params(model), stepped, strict=True):
            torch.testing.assert_close(param.tensor.detach(), wanted.detach().float())
