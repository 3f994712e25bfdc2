"""Backward passes at the same time, inside of one another, after torch's own; and gradients that are copied."""

import copy
import pickle
import threading
from typing import Any

import pytest
import torch

from burnlike import Autodiff, Cpu, Tensor
from burnlike.errors import TensorTypeError, TensorValueError

BACKEND = Autodiff(Cpu())


def leaf(*values: float) -> Tensor[Any, Any]:
    return Tensor(torch.tensor(values), BACKEND).require_grad()


def test_passes_of_two_threads_that_share_a_leaf_both_get_their_own_gradients() -> None:
    x = leaf(1.0, 2.0)
    inside, other_is_done = threading.Event(), threading.Event()
    found: dict[str, Any] = {}
    first = x * 3.0

    def wait_for_the_other(grad: torch.Tensor) -> None:
        inside.set()
        other_is_done.wait(0.3)  # it is not, if it waits for this one

    first.inner.register_hook(wait_for_the_other)

    def run_first() -> None:
        found["first"] = x.grad(first.sum().backward())

    def run_second() -> None:
        inside.wait()
        found["second"] = x.grad((x * 5.0).sum().backward())
        other_is_done.set()

    threads = [threading.Thread(target=run) for run in (run_first, run_second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found["first"].inner.tolist() == [3.0, 3.0]
    assert found["second"].inner.tolist() == [5.0, 5.0]
    assert x.inner.grad is not None
    assert x.inner.grad.tolist() == [8.0, 8.0]


def test_passes_without_a_common_leaf_do_not_wait_for_each_other() -> None:
    x, y = leaf(1.0), leaf(1.0)
    product = x * 2.0
    found: list[Any] = []

    def other_pass(grad: torch.Tensor) -> None:
        thread = threading.Thread(target=lambda: found.append(y.grad((y * 7.0).backward())))
        thread.start()
        thread.join(10.0)

    product.inner.register_hook(other_pass)
    assert x.grad(product.backward()).inner.tolist() == [2.0]
    assert found[0].inner.tolist() == [7.0]


def test_a_pass_inside_of_a_hook_of_another_one() -> None:
    x = leaf(2.0)
    square = x * x
    inner: list[float] = []

    def hook(grad: torch.Tensor) -> None:
        with torch.enable_grad():
            inner.append(x.grad((x * x * x).sum().backward()).inner.item())

    square.inner.register_hook(hook)
    assert x.grad((square + x * 5.0).sum().backward()).inner.item() == 9.0
    assert inner == [12.0]


def test_a_graph_that_torchs_backward_consumed_is_refused() -> None:
    x = leaf(2.0)
    loss = (x * x).sum()
    loss.inner.backward()
    mark = x.inner.grad
    with pytest.raises(TensorValueError, match=r"consumed by torch's own backward"):
        loss.backward()
    assert x.inner.grad is mark


def test_copied_gradients_belong_to_the_same_leaves_or_to_their_copies() -> None:
    x = leaf(1.0, 2.0)
    grads = (x * x).sum().backward()
    copied = copy.deepcopy(grads)
    assert x.grad(copied).inner.tolist() == [2.0, 4.0]
    assert x.grad(copied).inner is not x.grad(grads).inner
    shallow = copy.copy(grads)
    x.grad_remove(shallow)
    assert x.grad(grads) is not None
    for x_copy, grads_copy in (copy.deepcopy((x, grads)), pickle.loads(pickle.dumps((x, grads)))):
        assert x_copy.grad(grads_copy).inner.tolist() == [2.0, 4.0]
        assert x.grad(grads_copy) is None


def test_what_is_no_gradients_or_no_leaf_is_refused() -> None:
    x = leaf(1.0)
    grads = x.backward()
    with pytest.raises(TensorTypeError, match=r"a typed tensor has x\.grad\(gradients\)"):
        grads.get(x)  # pyright: ignore
    for call in (x.grad, x.grad_remove, lambda it: x.grad_replace(it, x.without_autodiff())):
        with pytest.raises(TensorTypeError, match=r"that backward\(\) gave, got dict; torch's is x\.inner\.grad"):
            call({})  # pyright: ignore


def test_what_can_not_be_a_leaf_says_so() -> None:
    with pytest.raises(TensorTypeError, match=r"expected a Float tensor, got one of kind Int; float\(\) converts it"):
        Tensor(torch.tensor([1]), BACKEND).require_grad()  # pyright: ignore
    with torch.inference_mode():
        made = Tensor(torch.ones(2), BACKEND)
        made.require_grad()
    with pytest.raises(TensorValueError, match=r"made in inference mode; copy it by Tensor\(x\.inner\.clone\(\)"):
        made.require_grad()
    assert Tensor(made.inner.clone(), BACKEND).require_grad().is_tracked()
