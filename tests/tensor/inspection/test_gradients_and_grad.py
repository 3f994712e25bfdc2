"""What backward passes leave in `.grad`, and what becomes of it when gradients are taken out of what they gave."""

import copy
import gc
import itertools
import sys
import threading
from typing import Any

import pytest
import torch
from torch import nn

from burnlike import Autodiff, Cpu, Gradients, Tensor
from burnlike.optim import GradientsParams

BACKEND = Autodiff(Cpu())
FACTORS = (1.0, 3.0, 5.0)


class Scale(nn.Module):
    """A parameter whose gradient is the sum of what it is multiplied by."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, 2.0]))

    def backward(self, factor: float) -> Gradients:
        return (Tensor(torch.full((2,), factor), BACKEND) * self.weight).sum().backward()


def grad_of(module: Scale) -> list[float]:
    grad = module.weight.grad
    return [] if grad is None else grad.tolist()


def test_passes_add_to_grad_and_leave_what_earlier_ones_gave_as_it_is() -> None:
    module = Scale()
    first = module.backward(1.0)
    assert module.weight.grad is first.get(module.weight)
    second = module.backward(3.0)
    assert grad_of(module) == [4.0, 4.0]
    assert [it.get(module.weight).tolist() for it in (first, second)] == [[1.0, 1.0], [3.0, 3.0]]  # pyright: ignore


def test_what_was_in_grad_is_never_written_to() -> None:
    module = Scale()
    mark = module.weight.grad = torch.tensor([7.0, 7.0])
    grads = module.backward(1.0)
    assert grad_of(module) == [8.0, 8.0]
    assert mark.tolist() == [7.0, 7.0]
    GradientsParams.from_grads(grads, module)
    assert module.weight.grad is mark


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_taking_the_gradients_of_passes_in_any_order_leaves_nothing_behind(order: tuple[int, ...]) -> None:
    module = Scale()
    passes = [module.backward(factor) for factor in FACTORS]
    left = sum(FACTORS)
    for place in order:
        assert grad_of(module) == [left, left]
        taken = GradientsParams.from_grads(passes[place], module)
        assert taken.values[0].tolist() == [FACTORS[place]] * 2
        left -= FACTORS[place]
    assert module.weight.grad is None


def test_gradients_that_are_dropped_stay_in_grad() -> None:
    module = Scale()
    first = module.backward(1.0)
    module.backward(3.0)
    gc.collect()
    second = module.backward(5.0)
    second.remove(module.weight)
    assert grad_of(module) == [4.0, 4.0]
    assert first.remove(module.weight) is not None
    assert grad_of(module) == [4.0, 4.0], "the pass that followed is gone: what it added is not known any more"


def test_grad_that_was_cleared_or_set_since_stays_as_it_is() -> None:
    module = Scale()
    grads = module.backward(1.0)
    module.zero_grad()
    module.backward(3.0)
    grads.remove(module.weight)
    assert grad_of(module) == [3.0, 3.0]
    grads = module.backward(5.0)
    mark = module.weight.grad = torch.zeros(2)
    grads.remove(module.weight)
    assert module.weight.grad is mark


def test_a_gradient_that_is_replaced_is_so_in_grad_too() -> None:
    x = Tensor(torch.tensor([1.0, 2.0]), BACKEND).require_grad()
    mark = x.inner.grad = torch.ones(2)
    grads = (x * 3.0).sum().backward()
    later = (x * 10.0).sum().backward()
    x.grad_replace(grads, Tensor(torch.tensor([5.0, 6.0]), Cpu()))
    assert x.inner.grad is not None
    assert x.inner.grad.tolist() == [16.0, 17.0]
    x.grad_remove(later)
    assert x.inner.grad.tolist() == [6.0, 7.0]
    x.grad_remove(grads)
    assert x.inner.grad is mark


def test_copies_of_gradients_leave_grad_alone() -> None:
    module = Scale()
    grads = module.backward(1.0)
    for copied in (copy.copy(grads), copy.deepcopy(grads)):
        copied.register(module.weight, torch.zeros(2))
        copied.remove(module.weight)
        assert grad_of(module) == [1.0, 1.0]


def test_tracked_gradients_are_in_no_grad() -> None:
    module = Scale()
    (Tensor(torch.ones(2), BACKEND) * module.weight).sum().backward(create_graph=True)
    assert module.weight.grad is None


def test_gradients_taken_while_another_thread_runs_a_pass_are_not_in_grad_afterwards() -> None:
    module = Scale()
    first = module.backward(1.0)
    inside, taken = threading.Event(), threading.Event()
    loss = (Tensor(torch.full((2,), 3.0), BACKEND) * module.weight).sum()

    def wait(grad: torch.Tensor) -> None:
        inside.set()
        taken.wait(30.0)

    loss.inner.register_hook(wait)
    found: list[Gradients] = []
    thread = threading.Thread(target=lambda: found.append(loss.backward()))
    thread.start()
    inside.wait(30.0)
    assert first.remove(module.weight) is not None
    taken.set()
    thread.join()
    assert grad_of(module) == [3.0, 3.0]
    found[0].remove(module.weight)
    assert module.weight.grad is None


def test_burns_loop_in_threads_leaves_nothing_behind() -> None:
    module = Scale()
    sums: list[float] = []

    def work() -> None:
        for _ in range(20):
            taken = GradientsParams.from_grads(module.backward(2.0), module)
            sums.append(taken.values[0].sum().item())

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert sums == [4.0] * 80
    assert module.weight.grad is None


def test_sparse_and_dense_gradients_add_up_as_torchs() -> None:
    def grads(typed: bool, first_sparse: bool) -> Any:
        table = nn.Parameter(torch.ones(3, 2))
        ids: Any = torch.tensor([0, 2, 2])
        factors: Any = torch.arange(6.0).reshape(3, 2)
        if typed:
            ids, factors = Tensor(ids, BACKEND), Tensor(factors, BACKEND)
        for sparse in (first_sparse, not first_sparse):
            (nn.functional.embedding(ids, table, sparse=sparse) * factors).sum().backward()
        return table.grad

    for first_sparse in (True, False):
        expected = grads(False, first_sparse)
        found = grads(True, first_sparse)
        assert found.layout == expected.layout
        assert torch.equal(found, expected)
