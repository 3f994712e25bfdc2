"""Layer normalization, fused.

y = (x - mean(x)) / sqrt(variance(x) + epsilon) * gamma + beta, over the last dimension (Ba et al. 2016, eq. 4).
"""

from typing import Any

import torch
from torch import Tensor

from ..errors import ShapeError
from ._arguments import check_tensor
from ._example import Example
from ._function import call, second_derivative
from ._library import autograd, fake, op

_layer_norm = op("layer_norm")
_layer_norm_backward = op("layer_norm_backward")


def layer_norm(x: Tensor, gamma: Tensor, beta: Tensor | None = None, epsilon: float = 1e-5) -> Tensor:
    """Subtract the mean of the last dimension of `x`, divide by its standard deviation, scale and shift it.

    Differentiable any number of times in `x`, `gamma` and `beta`; from the second derivative on in plain torch. Under
    autocast the result has x's dtype, too.

    Memory: allocates the result; keeps nothing for backward but `x` and `gamma` themselves. Backward allocates the
    gradients, and sums over runs of rows: on a CPU at most 64 pairs of `[d]`, on CUDA one pair for 8 rows and at most
    8 MB.

    Args:
        x: `[..., d]`, float32, float16, bfloat16 or float64, on a CPU or CUDA device.
        gamma: `[d]`, of x's dtype or float32.
        beta: `[d]`, of gamma's dtype, or None for zeros.
        epsilon: added to the variance, which is that of the d values themselves (divided by d).

    Returns:
        `[..., d]`, contiguous, in x's dtype; sums are accumulated in float32 (float64 for float64).
    """
    return call("layer_norm", _layer_norm, layer_norm_reference, _check, x, gamma, beta, epsilon)


def layer_norm_reference(x: Tensor, gamma: Tensor, beta: Tensor | None = None, epsilon: float = 1e-5) -> Tensor:
    """The same as `layer_norm` in plain torch, on any device."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    values = x.to(dtype)
    centered = values - values.mean(-1, keepdim=True)
    scale = torch.rsqrt(centered.square().mean(-1, keepdim=True) + epsilon)
    y = centered * scale * gamma.to(dtype)
    return (y if beta is None else y + beta.to(dtype)).to(x.dtype)


def check_norm(name: str, x: Tensor, gamma: Tensor, beta: Tensor | None = None, residual: Tensor | None = None) -> None:
    """Raise what a normalization says of wrong arguments."""
    check_tensor(name, "x", x)
    if x.dim() == 0:
        raise ShapeError(f"{name}: expected x of at least one dimension, got a scalar")
    check_tensor(name, "gamma", gamma, (x.dtype, torch.float32), x.device, x.shape[-1:])
    if beta is not None:
        check_tensor(name, "beta", beta, (gamma.dtype,), x.device, x.shape[-1:])
    if residual is not None:
        check_tensor(name, "residual", residual, (x.dtype,), x.device, x.shape)


def _check(x: Tensor, gamma: Tensor, beta: Tensor | None, epsilon: float) -> None:
    check_norm("layer_norm", x, gamma, beta)


@fake("layer_norm")
def _(x: Tensor, gamma: Tensor, beta: Tensor | None, epsilon: float) -> Tensor:
    _check(x, gamma, beta, epsilon)
    return x.new_empty(x.shape)


@fake("layer_norm_backward")
def _(grad: Tensor, x: Tensor, gamma: Tensor, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), gamma.new_empty(gamma.shape), gamma.new_empty(gamma.shape)


def _save(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor | None, float], output: Tensor) -> None:
    x, gamma, beta, ctx.epsilon = inputs
    ctx.has_beta = beta is not None
    ctx.save_for_backward(x, gamma)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor | None, None]:
    x, gamma = ctx.saved_tensors
    grad_x, grad_gamma, grad_beta = _layer_norm_backward(grad, x, gamma, ctx.epsilon)
    return grad_x, grad_gamma, grad_beta if ctx.has_beta else None, None


def _gradients(grad: Tensor, x: Tensor, gamma: Tensor, epsilon: float) -> tuple[Tensor, ...]:
    beta = torch.zeros_like(gamma, requires_grad=True)
    y = layer_norm_reference(x, gamma, beta, epsilon)
    return torch.autograd.grad(y, (x, gamma, beta), grad, create_graph=True)


autograd("layer_norm", _backward, _save)
autograd("layer_norm_backward", *second_derivative(_gradients))

EXAMPLE = Example(layer_norm, "rows", "row", "row")
