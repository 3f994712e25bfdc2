"""gelu(x + bias) as its own op: what the table of cases does not say."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from burnlike.errors import ArgumentError
from burnlike.ops import bias_gelu
from burnlike.ops.bias_gelu import Form

from .test_cuda_kernels import Kernels, kernels

__all__ = ["kernels"]

FORMS: tuple[Form, ...] = ("none", "tanh", "sigmoid")


def passes(grad: Tensor, x: Tensor, bias: Tensor, approximate: Form = "none") -> list[Tensor]:
    """The result and the gradients."""
    leaves = [it.detach().requires_grad_() for it in (x, bias)]
    y = bias_gelu(leaves[0], leaves[1], approximate)
    return [y.detach(), *torch.autograd.grad(y, leaves, grad)]


def test_known_values() -> None:
    # Phi(1) = 0.841344746, Phi(-2) = 0.022750132, Phi(-10) = 7.619853e-24.
    x, bias = torch.tensor([[2.0, -1.5, -4.0]]), torch.tensor([-1.0, -0.5, -6.0])
    expected = torch.tensor([[0.841344746, -0.045500264, -7.619853e-23]])
    torch.testing.assert_close(bias_gelu(x, bias), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("approximate", FORMS)
def test_special_values_are_those_of_torch(approximate: Form) -> None:
    # In float64, as torch's gelu of an infinite float32 is NaN on some CPUs.
    special = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 90.0, -90.0, 1e18, -1e18, 1e-40])
    x, bias = special[:, None].repeat(1, len(special)), special
    given = [it.double().requires_grad_() for it in (x, bias)]
    y = given[0] + given[1]
    expected = y * torch.sigmoid(1.702 * y) if approximate == "sigmoid" else F.gelu(y, approximate=approximate)
    exact = [expected, *torch.autograd.grad(expected.sum(), given)]
    for one, other in zip(passes(torch.ones_like(x), x, bias, approximate), exact, strict=True):
        torch.testing.assert_close(one, other.float(), equal_nan=True, atol=1e-30, rtol=1e-6)


def test_the_slope_by_a_sigmoid_is_1_up_to_the_largest_number() -> None:
    x = torch.tensor([[1e38, 3.4e38]])
    assert passes(torch.ones_like(x), x, torch.zeros(2), "sigmoid")[1].tolist() == [[1.0, 1.0]]


def test_bias_gradient_of_many_rows_is_summed_in_float32() -> None:
    # At x = 0 the slope of gelu is 1/2: sums of 5000 halves, of which bfloat16 would lose most.
    grads = passes(torch.ones(5000, 9).bfloat16(), torch.zeros(5000, 9).bfloat16(), torch.zeros(9))
    assert grads[2].tolist() == [2500.0] * 9


def test_expanded_rows_and_columns_of_a_matrix_are_read_where_they_are() -> None:
    row, bias = torch.randn(1, 64), torch.randn(64)
    torch.testing.assert_close(bias_gelu(row.expand(300, 64), bias), F.gelu(row + bias).expand(300, 64))
    wide = torch.randn(300, 128)
    torch.testing.assert_close(bias_gelu(wide[:, 32:96], bias), F.gelu(wide[:, 32:96] + bias))


@pytest.mark.parametrize("bias_dtype", [torch.bfloat16, torch.float32], ids=str)
def test_the_bits_on_cuda_do_not_depend_on_the_address(bias_dtype: torch.dtype, kernels: Kernels) -> None:
    torch.manual_seed(0)
    grad, x = (torch.randn(35, 2 * 64).bfloat16() for _ in range(2))
    bias = torch.randn(2 * 64).to(bias_dtype)

    def shifted(offset: int, *tensors: Tensor) -> list[Tensor]:
        copies = [it.new_empty(it.numel() + offset)[offset:].view(it.shape).copy_(it) for it in tensors]
        return passes(copies[0], copies[1], copies[2])

    expected = kernels.run(shifted, 0, grad, x, bias)
    torch.testing.assert_close(kernels.run(shifted, 1, grad, x, bias), expected, rtol=0, atol=0)
    torch.testing.assert_close(expected, passes(grad, x, bias), rtol=1e-2, atol=1e-2)


def test_more_columns_than_a_block_takes_on_cuda(kernels: Kernels) -> None:
    torch.manual_seed(0)
    grad, x, bias = torch.randn(11, 1100), torch.randn(11, 1100), torch.randn(1100)
    torch.testing.assert_close(kernels.run(passes, grad, x, bias), passes(grad, x, bias))


def test_wrong_arguments_are_named() -> None:
    x = torch.randn(3, 8)
    with pytest.raises(ArgumentError, match="bias_gelu: expected approximate 'none' or 'tanh' or 'sigmoid', got 'erf'"):
        bias_gelu(x, torch.ones(8), "erf")  # type: ignore[arg-type]
