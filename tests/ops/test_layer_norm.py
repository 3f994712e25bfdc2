"""Layer normalization as its own op: what the table of cases does not say."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import forward_ad, gradgradcheck

from burnlike.ops import layer_norm, native_status, rms_norm


def test_known_values() -> None:
    # Mean 3, variance 4: -1 and 1, times gamma, plus beta.
    y = layer_norm(torch.tensor([1.0, 5.0]), torch.tensor([1.0, 2.0]), torch.tensor([0.5, 0.25]), 0.0)
    assert y.tolist() == [-0.5, 2.25]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_errors_are_no_larger_than_those_of_torch(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    # A mean far from zero, by which the formula E[x^2] - E[x]^2 would lose its digits.
    x = (torch.randn(64, 384) + 30).to(dtype).requires_grad_()
    gamma, beta = (torch.randn(384).to(dtype).requires_grad_() for _ in range(2))
    seed = torch.randn(64, 384).to(dtype)

    def results(function: object, *inputs: Tensor) -> list[Tensor]:
        y = function(*inputs)  # type: ignore[operator]
        return [y.detach(), *torch.autograd.grad(y, inputs, seed.to(y.dtype))]

    leaves = [it.detach().double().requires_grad_() for it in (x, gamma, beta)]
    exact = results(lambda x, gamma, beta: F.layer_norm(x, (384,), gamma, beta, 1e-5), *leaves)
    theirs = results(lambda x, gamma, beta: F.layer_norm(x, (384,), gamma, beta, 1e-5), x, gamma, beta)
    ours = results(layer_norm, x, gamma, beta)
    for one, other, expected in zip(ours, theirs, exact, strict=True):
        error = (one.double() - expected).square().mean().sqrt()
        # A tenth for the luck of single roundings.
        assert error <= 1.1 * (other.double() - expected).square().mean().sqrt()


def test_special_values_spread_as_in_torch() -> None:
    x = torch.ones(4, 40)
    x[0, 5], x[1, 7], x[2, 1] = float("nan"), float("inf"), 1e30
    gamma, beta = torch.ones(40), torch.zeros(40)
    torch.testing.assert_close(layer_norm(x, gamma, beta), F.layer_norm(x, (40,), gamma, beta), equal_nan=True)


def test_large_values_do_not_overflow_in_half_precision() -> None:
    x = torch.tensor([[6e4, -6e4]], dtype=torch.float16)
    assert layer_norm(x, torch.ones(2, dtype=torch.float16)).tolist() == [[1.0, -1.0]]


def test_is_differentiable_twice() -> None:
    x, gamma, beta = (torch.randn(size, dtype=torch.float64, requires_grad=True) for size in ((3, 6), (6,), (6,)))
    assert gradgradcheck(lambda x, gamma, beta: layer_norm(x, gamma, beta, 1e-2), (x, gamma, beta))
    # Inputs that are made of each other, of which each derivative is taken by itself.
    (first,) = torch.autograd.grad(layer_norm(x * gamma, gamma).square().sum(), gamma, create_graph=True)
    (exact,) = torch.autograd.grad(F.layer_norm(x * gamma, (6,), gamma).square().sum(), gamma, create_graph=True)
    for one, other in zip(
        torch.autograd.grad(first.square().sum(), (x, gamma)),
        torch.autograd.grad(exact.square().sum(), (x, gamma)),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_transforms_and_forward_mode_give_what_torch_gives() -> None:
    x, tangent, gamma, beta = (torch.randn(size, dtype=torch.float64) for size in ((4, 6), (4, 6), (6,), (6,)))

    def ours(x: Tensor) -> Tensor:
        return layer_norm(x, gamma, beta)

    def theirs(x: Tensor) -> Tensor:
        return F.layer_norm(x, (6,), gamma, beta)

    before = native_status().calls["layer_norm"]
    torch.testing.assert_close(torch.func.vmap(ours)(x), theirs(x))
    torch.testing.assert_close(torch.func.jvp(ours, (x,), (tangent,)), torch.func.jvp(theirs, (x,), (tangent,)))
    assert native_status().calls["layer_norm"] == before  # which a vmap would call for each item
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, tangent)
        given, expected = (forward_ad.unpack_dual(function(dual)).tangent for function in (ours, theirs))
        torch.testing.assert_close(given, expected)


def test_autocast_keeps_the_dtype_of_x() -> None:
    x, gamma = torch.randn(3, 8, dtype=torch.bfloat16), torch.ones(8)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer_norm(x, gamma).dtype == torch.bfloat16
        assert layer_norm(x.float(), gamma).dtype == torch.float32


@pytest.mark.parametrize("size", [1e-15, 1.0, 1e15, 1e17])
def test_gradients_of_values_of_any_size_are_those_of_float64(size: float) -> None:
    torch.manual_seed(0)
    x, grad, gamma, beta = torch.randn(4, 64) * size, torch.randn(4, 64), torch.randn(64), torch.randn(64)
    for function, others in ((layer_norm, (gamma, beta)), (rms_norm, (gamma,))):
        results = []
        for dtype in (torch.float32, torch.float64):
            given = [it.to(dtype).requires_grad_() for it in (x, *others)]
            if dtype == torch.float32:
                y = function(*given)
            elif function is layer_norm:
                y = torch.nn.functional.layer_norm(given[0], (64,), given[1], given[2])
            else:
                y = torch.nn.functional.rms_norm(given[0], (64,), given[1], 1e-5)
            results.append(torch.autograd.grad(y, given, grad.to(dtype)))
        for one, other in zip(*results, strict=True):
            assert (one.double() - other).abs().max() <= 1e-5 * other.abs().max()
