"""Every layer over a backend of one's own: the same numbers, and no operation beside the backend's functions."""

import contextlib
from typing import Any

import pytest
import torch
from torch import Tensor

from burnlike import Autodiff, Tensor as Typed
from tests.backend.counting import Beside, Changed, Counting, leaving_torch
from tests.nn.cases import CASES, Case, first_of_each, tensors_of
from tests.nn.test_layers import changed, typed_tensors_of

each_layer = pytest.mark.parametrize("case", [first_of_each(case) for case in CASES if "typed" not in case.not_in])
# What computes nothing: the identity, and layers that only act in training.
IDLE = {"Identity", "Dropout/eval", "DropPath/eval", "DropPath/none", "GaussianNoise/eval", "GaussianNoise/none"}
# torch's derivative where a target is the blank itself: one path of two is left out (aten/src/ATen/native/LossCTC.cpp).
OTHER_GRADIENT = {"CTCLoss/blank"}


def outputs_and_gradients(
    case: Case, backend: Any, watch: Any = contextlib.nullcontext
) -> tuple[list[Tensor], list[Tensor | None]]:
    """Outputs, and the gradients of inputs and parameters; typed with a backend, else torch's."""
    layer, leaves = case.layer(), list[Tensor]()

    def made(tensor: Tensor) -> Any:
        found = tensor.clone()
        if found.is_floating_point():
            leaves.append(found.requires_grad_())
        return found if backend is None else Typed(found, backend)

    inputs, named = case.drawn()
    args, kwargs = [changed(it, made) for it in inputs], {name: changed(it, made) for name, it in named.items()}
    torch.manual_seed(2)
    loss: Any = None
    with watch():
        output = layer(*args, **kwargs)
        results = tensors_of(output) if backend is None else typed_tensors_of(output)
        for it in results:
            if (it if backend is None else it.inner).requires_grad:
                part = (it * it).sum()
                loss = part if loss is None else loss + part
        if loss is not None:
            loss.backward()
    values = [it.detach() if backend is None else it.inner.detach() for it in results]
    return values, [it.grad for it in (*leaves, *layer.parameters())]


def expect_the_same(case: Case, backend: Any, watch: Any = contextlib.nullcontext, *, gradients: bool = True) -> None:
    found, found_gradients = outputs_and_gradients(case, backend, watch)
    expected, expected_gradients = outputs_and_gradients(case, None)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.reshape(other.shape), other, rtol=1e-9, atol=1e-9)
    for one, other in zip(found_gradients, expected_gradients, strict=True) if gradients else ():
        assert (one is None) == (other is None)
        if one is not None and case.name not in OTHER_GRADIENT:
            torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8)


@each_layer
def test_a_counting_backend_computes_everything_and_the_same(case: Case) -> None:
    backend = Counting()
    beside = Beside(backend)
    expect_the_same(case, Autodiff(backend), lambda: beside)
    assert beside.found == []
    assert backend.log or case.name in IDLE


@pytest.mark.slow
@each_layer
def test_without_tracking_too(case: Case) -> None:
    backend = Counting()
    beside = Beside(backend)
    expect_the_same(case, backend, lambda: beside, gradients=False)
    assert beside.found == []
    assert backend.log or case.name in IDLE


@pytest.mark.slow
@each_layer
def test_a_backend_in_numpy_computes_the_same(case: Case) -> None:
    expect_the_same(case, Autodiff(Changed(leaving_torch)))
