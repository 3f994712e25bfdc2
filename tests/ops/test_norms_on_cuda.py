"""Normalizations on CUDA, emulated where there is none: each kernel that a width can choose, and any address."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from burnlike.ops import add_layer_norm, add_rms_norm, layer_norm, rms_norm

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


BF16, F32, F64 = torch.bfloat16, torch.float32, torch.float64


def of_width(width: int) -> pytest.MarkDecorator:
    return pytest.mark.slow if width < 8192 else pytest.mark.weekly


@pytest.mark.parametrize(
    ("rows", "width", "dtype", "weight_dtype"),
    [
        *((19, width, dtype, F32) for width in (1, 7, 8, 9, 127, 128, 129) for dtype in (BF16, F32)),
        *((19, width, F64, F64) for width in (1, 2, 129)),
        *((19, width, dtype, F64 if dtype == F64 else BF16) for width, dtype in ((64, BF16), (255, BF16), (66, F64))),
        # Two packs of 16 bytes for each of 512 threads, and more: backward sums in shared memory.
        *((2, width, F32, F32) for width in (2048, 2052)),
        *(pytest.param(2, width, F32, F32, marks=of_width(width)) for width in (4096, 4097, 4104, 8192, 8193, 16384)),
        *(
            pytest.param(2, width, BF16, weight_dtype, marks=of_width(width))
            for width in (2048, 2056, 4096, 4097, 4104, 8192, 8193, 8200, 16384, 16392)
            for weight_dtype in (F32, BF16)
        ),
        # More than 48 KB of shared memory, and more than there is: sums where they are written.
        pytest.param(1, 12801, F32, F32, marks=of_width(12801)),
        pytest.param(2, 60001, F32, F32, marks=of_width(60001)),
    ],
    ids=str,
)
@pytest.mark.parametrize("norm", NORMS)
def test_every_kernel_that_a_width_chooses(
    norm: str, rows: int, width: int, dtype: torch.dtype, weight_dtype: torch.dtype, kernels: Kernels
) -> None:
    inputs = random_inputs(norm, rows, width, dtype, weight_dtype)
    for one, other in zip(kernels.run(passes, norm, *inputs), passes(norm, *inputs), strict=True):
        rtol, atol = TOLERANCE[one.dtype]
        torch.testing.assert_close(one, other, rtol=rtol, atol=atol * max(4, rows))


@pytest.mark.parametrize("width", [7, 64, 129])
@pytest.mark.parametrize("norm", [add_rms_norm, add_layer_norm])
def test_a_residual_and_rows_at_a_distance(norm: Callable[..., Any], width: int, kernels: Kernels) -> None:
    def both_passes(*inputs: Tensor) -> list[Tensor]:
        *strided, gamma = inputs
        x, residual = (it[:, 8 : 8 + width] for it in strided[:2])
        leaves = [it.requires_grad_() for it in (x.detach(), residual.detach(), gamma.detach())]
        weights = [leaves[2]] if norm is add_rms_norm else [leaves[2], gamma.flip(0)]
        outputs = norm(leaves[0], leaves[1], *weights)
        seeds = [it[:, :width] for it in strided[2:]]
        return [*(it.detach() for it in outputs), *torch.autograd.grad(outputs, leaves, seeds)]

    torch.manual_seed(0)
    inputs = [*(torch.randn(21, width + 24) for _ in range(4)), torch.randn(width)]
    for one, other in zip(kernels.run(both_passes, *inputs), both_passes(*inputs), strict=True):
        torch.testing.assert_close(one, other, rtol=5e-6, atol=1e-4)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("width", [64, 67])
def test_the_bits_do_not_depend_on_the_address(norm: str, width: int, kernels: Kernels) -> None:
    def shifted(offset: int, *tensors: Tensor) -> list[Tensor]:
        return passes(norm, *(it.new_empty(it.numel() + offset)[offset:].view(it.shape).copy_(it) for it in tensors))

    # More rows than the emulated GPU has blocks at a time for with eight rows each: 6 x 8. Of 67 values no row but each
    # fourth begins where a pack may.
    inputs = random_inputs(norm, 99, width, F32, F32)
    expected = kernels.run(shifted, 0, *inputs)
    for one, other in zip(expected, passes(norm, *inputs), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(kernels.run(shifted, 1, *inputs), expected, rtol=0, atol=0)
