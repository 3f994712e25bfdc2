"""The sum of two tensors and its RMS normalization, in one pass: x + residual, which a block's next sum needs, and
rms_norm(x + residual)."""

from typing import Any

import torch
from torch import Tensor

from ._function import call, second_derivative
from ._library import autograd, fake, op
from .layer_norm import check_norm
from .rms_norm import rms_norm_reference

_add_rms_norm = op("add_rms_norm")
_add_rms_norm_backward = op("add_rms_norm_backward")


def add_rms_norm(x: Tensor, residual: Tensor, gamma: Tensor, epsilon: float = 1e-5) -> tuple[Tensor, Tensor]:
    """`rms_norm` of x + residual, and the sum itself.

    The bits are those of the sum and of `rms_norm` of it. Differentiable any number of times, from the
    second derivative on in plain torch; the gradients of both results come into one pass, and what `x` and `residual`
    get is the same tensor.

    Memory: allocates the two results; keeps nothing for backward but the sum and `gamma` themselves. Backward allocates
    one gradient for `x` and `residual`, and what that of `rms_norm` does.

    Args:
        x: `[..., d]`, float32, float16, bfloat16 or float64, on a CPU or CUDA device.
        residual: as x.
        gamma: `[d]`, of x's dtype or float32.
        epsilon: added to the mean square.

    Returns:
        The normalized sum and the sum, each `[..., d]`, contiguous, in x's dtype.

    Raises:
        ShapeError, DTypeError, DeviceError: a tensor is not as said above.
    """
    return call("add_rms_norm", _add_rms_norm, add_rms_norm_reference, _check, x, residual, gamma, epsilon)


def add_rms_norm_reference(x: Tensor, residual: Tensor, gamma: Tensor, epsilon: float = 1e-5) -> tuple[Tensor, Tensor]:
    """The same as `add_rms_norm` in plain torch, on any device."""
    total = x + residual
    return rms_norm_reference(total, gamma, epsilon), total


def _check(x: Tensor, residual: Tensor, gamma: Tensor, epsilon: float) -> None:
    check_norm("add_rms_norm", x, gamma, residual=residual)


@fake("add_rms_norm")
def _(x: Tensor, residual: Tensor, gamma: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    _check(x, residual, gamma, epsilon)
    return x.new_empty(x.shape), x.new_empty(x.shape)


@fake("add_rms_norm_backward")
def _(grad: Tensor, grad_total: Tensor | None, total: Tensor, gamma: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    return total.new_empty(total.shape), gamma.new_empty(gamma.shape)


def _save(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, float], output: tuple[Tensor, Tensor]) -> None:
    _, _, gamma, ctx.epsilon = inputs
    ctx.save_for_backward(output[1], gamma)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grad: Tensor | None, grad_total: Tensor | None) -> tuple[Tensor, Tensor, Tensor, None]:
    total, gamma = ctx.saved_tensors
    grad = grad if grad is not None else total.new_zeros(total.shape)
    grad_x, grad_gamma = _add_rms_norm_backward(grad, grad_total, total, gamma, ctx.epsilon)
    return grad_x, grad_x, grad_gamma, None


def _gradients(
    grad: Tensor, grad_total: Tensor | None, total: Tensor, gamma: Tensor, epsilon: float
) -> tuple[Tensor, Tensor]:
    y = rms_norm_reference(total, gamma, epsilon)
    grad_x, grad_gamma = torch.autograd.grad(y, (total, gamma), grad, create_graph=True)
    return grad_x if grad_total is None else grad_x + grad_total, grad_gamma


autograd("add_rms_norm", _backward, _save)
autograd("add_rms_norm_backward", *second_derivative(_gradients))
