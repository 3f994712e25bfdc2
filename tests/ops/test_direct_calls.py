"""Calls of ops pass by torch's general way to derivatives that are written in Python, and give what that gives."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from benchmarks.ops._sizes import SIZED
from burnlike.errors import ShapeError
from burnlike.ops import rms_norm, swiglu
from burnlike.ops._example import examples

EXAMPLES = examples()


def both_passes(call: Callable[..., Tensor], inputs: list[Tensor]) -> tuple[Tensor, ...]:
    torch.manual_seed(0)  # of dropout_add
    y = call(*inputs)
    leaves = [it for it in inputs if it.requires_grad]
    return y, *torch.autograd.grad(y, leaves, torch.ones_like(y))


@pytest.mark.parametrize("name", EXAMPLES)
def test_values_and_gradients_are_those_of_torchs_own_way(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call, inputs = EXAMPLES[name].call, EXAMPLES[name].inputs("cpu")
    direct = both_passes(call, inputs)
    calls: list[bool] = []
    # What a trace takes: the dispatcher's own derivative.
    monkeypatch.setattr(torch.jit, "is_tracing", lambda: calls.append(True) or True)
    for found, expected in zip(direct, both_passes(call, inputs), strict=True):
        assert torch.equal(found, expected)
    assert calls
    with torch.no_grad():
        assert not call(*inputs).requires_grad


def test_what_needs_no_gradient_keeps_no_graph() -> None:
    x, gamma = torch.randn(2, 8), torch.ones(8)
    assert rms_norm(x, gamma).grad_fn is None
    assert "rms_norm" in rms_norm(x.requires_grad_(), gamma).grad_fn.name()  # pyright: ignore[reportOptionalMemberAccess]
    with torch.inference_mode():
        assert rms_norm(x, gamma).is_inference()


def test_derivatives_of_derivatives_are_recorded() -> None:
    x, y = (torch.randn(3, 8, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradgradcheck(swiglu, (x, y))
    (grad,) = torch.autograd.grad(swiglu(x, y).sum(), x, create_graph=True)
    assert grad.requires_grad
    (again,) = torch.autograd.grad(swiglu(x, y).sum(), x)
    assert not again.requires_grad


def test_modes_see_the_op_and_checkpoints_repeat_it() -> None:
    x, gamma = torch.randn(2, 8), torch.ones(8, requires_grad=True)
    called: list[Any] = []

    class Listing(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            called.append(func)
            return func(*args, **kwargs or {})

    with Listing():
        (grad,) = torch.autograd.grad(rms_norm(x, gamma).sum(), gamma)
    assert torch.ops.burnlike.rms_norm.default in called
    assert torch.ops.burnlike.rms_norm_backward.default in called
    again: Any = checkpoint(rms_norm, x, gamma, use_reentrant=False)
    again.sum().backward()
    torch.testing.assert_close(gamma.grad, grad)


def test_errors_are_raised_where_a_gradient_is_recorded_too() -> None:
    with pytest.raises(ShapeError, match="gamma"):
        rms_norm(torch.ones(2, 8), torch.ones(4, requires_grad=True))


@pytest.mark.parametrize("name", sorted({*EXAMPLES} - {"attention"}))
def test_benchmarks_of_any_size_compare_the_same(name: str) -> None:
    case = SIZED[name.replace("masked_", "")]
    inputs = case.inputs(3, 16, torch.float32, "cpu")
    if name == "dropout_add":  # which draws other values than torch
        inputs[0] = torch.zeros_like(inputs[0])
    torch.testing.assert_close(case.ours(*inputs), case.theirs(*inputs))
