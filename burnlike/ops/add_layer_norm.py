"""The sum of two tensors and its layer normalization, in one pass: x + residual, which a block's next sum needs, and
layer_norm(x + residual)."""

from typing import Any

import torch
from torch import Tensor

from ._function import call, second_derivative
from ._library import autograd, fake, op
from .layer_norm import check_norm, layer_norm_reference

_add_layer_norm = op("add_layer_norm")
_add_layer_norm_backward = op("add_layer_norm_backward")


def add_layer_norm(
    x: Tensor, residual: Tensor, gamma: Tensor, beta: Tensor | None = None, epsilon: float = 1e-5
) -> tuple[Tensor, Tensor]:
    """`layer_norm` of x + residual, and the sum itself.

    The bits are those of the sum and of `layer_norm` of it. Differentiable any number of times, from the second
    derivative on in plain torch; the gradients of both results come into one pass, and what `x` and `residual` get is
    the same tensor.

    Memory: allocates the two results; keeps nothing for backward but the sum and `gamma` themselves. Backward allocates
    one gradient for `x` and `residual`, and what that of `layer_norm` does.

    Args:
        x: `[..., d]`, float32, float16, bfloat16 or float64, on a CPU or CUDA device.
        residual: as x.
        gamma: `[d]`, of x's dtype or float32.
        beta: `[d]`, of gamma's dtype, or None for zeros.
        epsilon: added to the variance.

    Returns:
        The normalized sum and the sum, each `[..., d]`, contiguous, in x's dtype.

    Raises:
        ShapeError, DTypeError, DeviceError: a tensor is not as said above.
    """
    return call("add_layer_norm", _add_layer_norm, add_layer_norm_reference, _check, x, residual, gamma, beta, epsilon)


def add_layer_norm_reference(
    x: Tensor, residual: Tensor, gamma: Tensor, beta: Tensor | None = None, epsilon: float = 1e-5
) -> tuple[Tensor, Tensor]:
    """The same as `add_layer_norm` in plain torch, on any device."""
    total = x + residual
    return layer_norm_reference(total, gamma, beta, epsilon), total


def _check(x: Tensor, residual: Tensor, gamma: Tensor, beta: Tensor | None, epsilon: float) -> None:
    check_norm("add_layer_norm", x, gamma, beta, residual)


@fake("add_layer_norm")
def _(x: Tensor, residual: Tensor, gamma: Tensor, beta: Tensor | None, epsilon: float) -> tuple[Tensor, Tensor]:
    _check(x, residual, gamma, beta, epsilon)
    return x.new_empty(x.shape), x.new_empty(x.shape)


@fake("add_layer_norm_backward")
def _(
    grad: Tensor, grad_total: Tensor | None, total: Tensor, gamma: Tensor, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    return total.new_empty(total.shape), gamma.new_empty(gamma.shape), gamma.new_empty(gamma.shape)


def _save(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, Tensor | None, float], output: tuple[Tensor, Tensor]) -> None:
    _, _, gamma, beta, ctx.epsilon = inputs
    ctx.has_beta = beta is not None
    ctx.save_for_backward(output[1], gamma)
    ctx.set_materialize_grads(False)


def _backward(
    ctx: Any, grad: Tensor | None, grad_total: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, None]:
    total, gamma = ctx.saved_tensors
    grad = grad if grad is not None else total.new_zeros(total.shape)
    grad_x, grad_gamma, grad_beta = _add_layer_norm_backward(grad, grad_total, total, gamma, ctx.epsilon)
    return grad_x, grad_x, grad_gamma, grad_beta if ctx.has_beta else None, None


def _gradients(
    grad: Tensor, grad_total: Tensor | None, total: Tensor, gamma: Tensor, epsilon: float
) -> tuple[Tensor, ...]:
    beta = torch.zeros_like(gamma, requires_grad=True)
    y = layer_norm_reference(total, gamma, beta, epsilon)
    grad_x, *grads = torch.autograd.grad(y, (total, gamma, beta), grad, create_graph=True)
    return grad_x if grad_total is None else grad_x + grad_total, *grads


autograd("add_layer_norm", _backward, _save)
autograd("add_layer_norm_backward", *second_derivative(_gradients))
