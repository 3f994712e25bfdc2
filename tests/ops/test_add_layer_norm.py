"""A sum and its layer normalization as one op: what the table of cases does not say."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import gradgradcheck

from burnlike.errors import DTypeError, ShapeError
from burnlike.ops import add_layer_norm, layer_norm, native_status


def leaves(dtype: torch.dtype = torch.float32, width: int = 40) -> list[Tensor]:
    torch.manual_seed(0)
    sizes = ((6, width), (6, width), (width,), (width,))
    return [torch.randn(size).to(dtype).requires_grad_() for size in sizes]


def test_agrees_with_torch_in_float64() -> None:
    x, residual, gamma, beta = tensors = leaves(torch.float64)
    y, total = add_layer_norm(x, residual, gamma, beta, 1e-3)
    torch.testing.assert_close(total, x + residual, rtol=0, atol=0)
    expected = F.layer_norm(x + residual, (40,), gamma, beta, 1e-3)
    torch.testing.assert_close(y, expected)
    given = torch.autograd.grad((y.square() + total.sin()).sum(), tensors)
    torch.testing.assert_close(given, torch.autograd.grad((expected.square() + (x + residual).sin()).sum(), tensors))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_gives_the_bits_of_the_sum_and_of_its_norm(dtype: torch.dtype) -> None:
    x, residual, gamma, _ = leaves(dtype)
    y, total = add_layer_norm(x, residual, gamma)
    torch.testing.assert_close((y, total), (layer_norm(x + residual, gamma), x + residual), rtol=0, atol=0)


@pytest.mark.parametrize("used", [0, 1])
def test_one_result_may_be_unused(used: int) -> None:
    x, residual, gamma, beta = tensors = leaves()
    given = torch.autograd.grad(add_layer_norm(x, residual, gamma, beta)[used].square().sum(), tensors)
    total = (x + residual).double()
    exact = (F.layer_norm(total, (40,), gamma.double(), beta.double(), 1e-5), total)[used]
    expected = torch.autograd.grad(exact.square().sum(), tensors, allow_unused=True)
    for one, other in zip(given, expected, strict=True):
        torch.testing.assert_close(one, torch.zeros_like(one) if other is None else other)


def test_is_differentiable_twice() -> None:
    tensors = leaves(torch.float64, width=5)
    assert gradgradcheck(lambda x, residual, gamma, beta: add_layer_norm(x, residual, gamma, beta, 1e-2), tensors)


def test_keeps_nothing_for_backward_but_the_sum_and_gamma() -> None:
    saved: list[int] = []
    x, residual, gamma, beta = leaves()
    with torch.autograd.graph.saved_tensors_hooks(lambda it: saved.append(it.data_ptr()) or it, lambda it: it):
        _, total = add_layer_norm(x, residual, gamma, beta)
    assert saved == [total.data_ptr(), gamma.data_ptr()]


def test_native_path_runs_forward_and_backward() -> None:
    before = native_status().calls
    x, residual, gamma, beta = leaves()
    add_layer_norm(x, residual, gamma, beta)[0].sum().backward()
    after = native_status().calls
    assert after["add_layer_norm"] == before["add_layer_norm"] + 1
    assert after["add_layer_norm_backward"] == before["add_layer_norm_backward"] + 1


def test_wrong_arguments_are_named() -> None:
    x, ones = torch.randn(3, 8), torch.ones(8)
    with pytest.raises(ShapeError, match=r"add_layer_norm: expected residual of shape \[3, 8\], got \[3, 1\]"):
        add_layer_norm(x, torch.ones(3, 1), ones)
    with pytest.raises(DTypeError, match=r"add_layer_norm: expected beta of dtype float32, got float64"):
        add_layer_norm(x, x, ones, ones.double())
