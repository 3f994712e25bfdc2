"""A sum and its RMS normalization as one op: what the table of cases does not say."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from burnlike.errors import DeviceError, DTypeError, ShapeError
from burnlike.ops import add_rms_norm, native_status, rms_norm


def leaves(dtype: torch.dtype = torch.float32) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(size).to(dtype).requires_grad_() for size in ((6, 40), (6, 40), (40,))]


def test_agrees_with_torch_in_float64() -> None:
    x, residual, gamma = leaves(torch.float64)
    y, total = add_rms_norm(x, residual, gamma, 1e-3)
    torch.testing.assert_close(total, x + residual, rtol=0, atol=0)
    expected = F.rms_norm(x + residual, (40,), gamma, 1e-3)
    torch.testing.assert_close(y, expected)
    given = torch.autograd.grad((y.square() + total.sin()).sum(), (x, residual, gamma))
    exact = torch.autograd.grad((expected.square() + (x + residual).sin()).sum(), (x, residual, gamma))
    torch.testing.assert_close(given, exact)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_gives_the_bits_of_the_sum_and_of_its_norm(dtype: torch.dtype) -> None:
    x, residual, gamma = leaves(dtype)
    y, total = add_rms_norm(x, residual, gamma)
    torch.testing.assert_close((y, total), (rms_norm(x + residual, gamma), x + residual), rtol=0, atol=0)


@pytest.mark.parametrize("used", [0, 1])
def test_one_result_may_be_unused(used: int) -> None:
    x, residual, gamma = leaves()
    given = torch.autograd.grad(add_rms_norm(x, residual, gamma)[used].square().sum(), (x, residual, gamma))
    total = (x + residual).double()
    exact = (F.rms_norm(total, (40,), gamma.double(), 1e-5), total)[used]
    expected = torch.autograd.grad(exact.square().sum(), (x, residual, gamma), allow_unused=True)
    for one, other in zip(given, expected, strict=True):
        torch.testing.assert_close(one, torch.zeros_like(one) if other is None else other)


def test_keeps_nothing_for_backward_but_the_sum_and_gamma() -> None:
    saved: list[int] = []
    x, residual, gamma = leaves()
    with torch.autograd.graph.saved_tensors_hooks(lambda it: saved.append(it.data_ptr()) or it, lambda it: it):
        _, total = add_rms_norm(x, residual, gamma)
    assert saved == [total.data_ptr(), gamma.data_ptr()]


def test_native_path_runs_forward_and_backward() -> None:
    before = native_status().calls
    x, residual, gamma = leaves()
    add_rms_norm(x, residual, gamma)[0].sum().backward()
    after = native_status().calls
    assert after["add_rms_norm"] == before["add_rms_norm"] + 1
    assert after["add_rms_norm_backward"] == before["add_rms_norm_backward"] + 1


def test_wrong_arguments_are_named() -> None:
    x, ones = torch.randn(3, 8), torch.ones(8)
    with pytest.raises(ShapeError, match=r"add_rms_norm: expected residual of shape \[3, 8\], got \[8\]"):
        add_rms_norm(x, ones, ones)
    with pytest.raises(ShapeError, match=r"add_rms_norm: expected gamma of shape \[8\], got \[7\]"):
        add_rms_norm(x, x, torch.ones(7))
    with pytest.raises(DTypeError, match=r"expected residual of dtype float32, got bfloat16; .*to\(torch.float32\)"):
        add_rms_norm(x, x.bfloat16(), ones)
    with pytest.raises(DeviceError, match=r"expected residual on cpu, got meta; move it"):
        add_rms_norm(x, x.to("meta"), ones)
