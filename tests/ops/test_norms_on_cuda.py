"""Normalizations on CUDA, emulated where there is none: each kernel that a width can choose, and any address."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from burnlike.ops import layer_norm, rms_norm

from .op_case import TOLERANCE
from .test_cuda_kernels import Kernels, kernels

__all__ = ["kernels"]

NORMS: dict[str, Callable[..., Tensor]] = {"rms_norm": rms_norm, "layer_norm": layer_norm}


def passes(norm: str, grad: Tensor, *inputs: Tensor) -> list[Tensor]:
    """A norm's result and gradients."""
    leaves = [it.detach().requires_grad_() for it in inputs]
    y = NORMS[norm](*leaves)
    return [y.detach(), *torch.autograd.grad(y, leaves, grad)]


def random_inputs(norm: str, rows: int, width: int, dtype: torch.dtype, weight_dtype: torch.dtype) -> list[Tensor]:
    """The gradient, x and the weights."""
    torch.manual_seed(0)
    weights = [torch.randn(width).to(weight_dtype) for _ in range(2 if norm == "layer_norm" else 1)]
    return [*(torch.randn(rows, width).to(dtype) for _ in range(2)), *weights]


@pytest.mark.parametrize(
    ("dtype", "width"),
    [  # two packs of 16 bytes for each of 512 threads, and four
        (torch.float32, 2052),
        (torch.float32, 4104),
        pytest.param(torch.bfloat16, 4104, marks=pytest.mark.slow),
        pytest.param(torch.bfloat16, 8200, marks=pytest.mark.slow),
    ],
    ids=str,
)
@pytest.mark.parametrize("norm", NORMS)
def test_wide_rows(norm: str, dtype: torch.dtype, width: int, kernels: Kernels) -> None:
    inputs = random_inputs(norm, 2, width, dtype, torch.float32)
    for one, other in zip(kernels.run(passes, norm, *inputs), passes(norm, *inputs), strict=True):
        rtol, atol = TOLERANCE[one.dtype]
        torch.testing.assert_close(one, other, rtol=rtol, atol=atol * 4)


@pytest.mark.parametrize("norm", NORMS)
def test_the_bits_do_not_depend_on_the_address(norm: str, kernels: Kernels) -> None:
    def shifted(offset: int, *tensors: Tensor) -> list[Tensor]:
        return passes(norm, *(it.new_empty(it.numel() + offset)[offset:].view(it.shape).copy_(it) for it in tensors))

    # More rows than the emulated GPU has blocks at a time for with eight rows each: 6 x 8.
    inputs = random_inputs(norm, 99, 64, torch.float32, torch.float32)
    expected = kernels.run(shifted, 0, *inputs)
    for one, other in zip(expected, passes(norm, *inputs), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(kernels.run(shifted, 1, *inputs), expected, rtol=0, atol=0)
