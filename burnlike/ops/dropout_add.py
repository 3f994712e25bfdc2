"""residual + dropout(x), fused (Srivastava et al. 2014), without a mask in memory.

Whether a value is dropped is a hash of a seed and of the value's index, which backward computes again; it is the same
for any number of threads and on every device. csrc/include/burnlike/random.h has the hash.
"""

from typing import Any

import torch
from torch import Tensor

from ..errors import ArgumentError
from ._arguments import check_tensor
from ._example import Example
from ._function import call, second_derivative
from ._library import autograd, fake, op
from ._random import random_bits, uniform

_dropout_add = op("dropout_add")
_dropout_add_backward = op("dropout_add_backward")

_LAST_SEED = 2**63 - 1


def dropout_add(
    x: Tensor, residual: Tensor, probability: float = 0.5, training: bool = True, seed: Tensor | None = None
) -> Tensor:
    """residual + dropout(x): values of x become 0 with a probability, the others are scaled by 1 / (1 - probability).

    Without a seed one is drawn by torch's generator of x's device: `torch.manual_seed` repeats it, activation
    checkpointing draws the same again, and a captured CUDA graph draws another in each replay. The seed stays on the
    device; nothing waits for it.

    Differentiable any number of times, from the second derivative on in plain torch.

    Memory: the result, and backward the gradient of x; the gradient of the residual is that of the result itself. Only
    the seed is saved for backward, 8 bytes.

    Args:
        x: `[...]`, float32, float16, bfloat16 or float64, on a CPU or CUDA device.
        residual: of x's shape, and of x's dtype or float32.
        probability: of dropping a value, from 0 to 1.
        training: if false, the result is residual + x.
        seed: `[]`, int64, on x's device. Equal seeds drop values at the same indices.

    Returns:
        `[...]`, in the residual's dtype.

    Raises:
        ArgumentError: the probability is below 0 or above 1.
    """
    if training and probability > 0:
        if seed is None:
            # A tensor, not a number: a number would be a constant in compiled code and in captured CUDA graphs.
            seed = torch.randint(_LAST_SEED, (), dtype=torch.int64, device=x.device)
        return call("dropout_add", _dropout_add, dropout_add_reference, _check, x, residual, probability, seed)
    _check(x, residual, probability, seed)
    return residual + x


def dropout_add_reference(x: Tensor, residual: Tensor, probability: float, seed: Tensor) -> Tensor:
    """The same as `dropout_add` in training, in plain torch, on any device."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    return (residual.to(dtype) + x.to(dtype) * _factors(x, probability, seed)).to(residual.dtype)


def _factors(x: Tensor, probability: float, seed: Tensor) -> Tensor:
    """The factor of each value of x."""
    draws = uniform(random_bits(seed.reshape(()), 0, 0, x.numel(), x.device)).view(x.shape)
    scale = 1 / (1 - probability) if probability < 1 else 0.0
    return (draws >= probability).to(torch.promote_types(x.dtype, torch.float32)) * scale


def _check(x: Tensor, residual: Tensor, probability: float, seed: Tensor | None) -> None:
    check_tensor("dropout_add", "x", x)
    wide = (x.dtype,) if x.dtype == torch.float64 else (x.dtype, torch.float32)
    check_tensor("dropout_add", "residual", residual, wide, x.device, x.shape)
    if not 0 <= probability <= 1:
        raise ArgumentError(f"dropout_add: expected a probability from 0 to 1, got {probability}")
    if seed is not None:
        check_tensor("dropout_add", "seed", seed, (torch.int64,), x.device, ())


@fake("dropout_add")
def _(x: Tensor, residual: Tensor, probability: float, seed: Tensor) -> Tensor:
    _check(x, residual, probability, seed)
    return residual.new_empty(residual.shape)


@fake("dropout_add_backward")
def _(grad: Tensor, probability: float, seed: Tensor, dtype: torch.dtype) -> Tensor:
    return grad.new_empty(grad.shape, dtype=dtype)


def _save(ctx: Any, inputs: tuple[Tensor, Tensor, float, Tensor], output: Tensor) -> None:
    x, _, ctx.probability, seed = inputs
    ctx.dtype = x.dtype
    ctx.save_for_backward(seed)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
    (seed,) = ctx.saved_tensors
    return _dropout_add_backward(grad, ctx.probability, seed, ctx.dtype), grad, None, None


def _gradients(grad: Tensor, probability: float, seed: Tensor, dtype: torch.dtype) -> tuple[Tensor]:
    return ((grad * _factors(grad, probability, seed)).to(dtype),)


autograd("dropout_add", _backward, _save)
autograd("dropout_add_backward", *second_derivative(_gradients))

EXAMPLE = Example(dropout_add, "rows", "rows")
