"""Batch normalization of rows with what often follows it: a residual sum and an activation (Ioffe & Szegedy 2015).

y = f((x - m) / sqrt(v + epsilon) * gamma + beta + residual), with mean m and variance v of each column. An image
`[n, c, h, w]` in `torch.channels_last` is `[n, h, w, c]` as rows.
"""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from ..errors import ArgumentError, ShapeError
from ._arguments import check_tensor
from ._example import Example
from ._function import call, second_derivative
from ._library import autograd, fake, op
from .batch_moments import batch_moments_reference

BatchActivation = Literal["none", "relu", "silu", "hardswish"]
"""The functions that may follow, by torch's names."""

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": functional.relu,
    "silu": functional.silu,
    "hardswish": functional.hardswish,
}
_BESIDE_A_RESIDUAL = ("none", "relu")

_batch_norm, _batch_norm_backward = op("batch_norm"), op("batch_norm_backward")


def batch_norm(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    mean: Tensor,
    variance: Tensor,
    residual: Tensor | None = None,
    *,
    epsilon: float = 1e-5,
    activation: BatchActivation = "none",
    of_batch: bool = True,
) -> Tensor:
    """Normalize each column by its mean and variance, scale and shift it, add the residual, and call the activation.

    Differentiable any number of times, from the second derivative on in plain torch.

    Memory: the result, and backward the gradients, and sums over runs of rows, at most 64 of `[2 d]`. x and the columns
    are saved for backward, and the result where a residual was added before an activation.

    Args:
        x: `[..., d]`, float32, float16, bfloat16 or float64, on a CPU; on other devices it is the reference.
        gamma: `[d]`, of x's dtype or float32.
        beta: `[d]`, of x's dtype or float32.
        mean: `[d]`, of each column, in float32 (float64 for float64).
        variance: `[d]`, of each column, as `mean`.
        residual: of x's shape and dtype, added before the activation.
        epsilon: added to the variance.
        activation: "none", "relu", "silu" or "hardswish"; with a residual one of the first two.
        of_batch: whether mean and variance are those of x, `batch_moments(x)`: the gradient of x is that through them,
            too. False: they are numbers, as in evaluation.

    Returns:
        `[..., d]`, contiguous, in x's dtype. Computed in float32 (float64 for float64) and rounded once; the bits of
        gradients are the same for any number of threads.

    Raises:
        ArgumentError: `activation` is another word, or one that does not come with a residual.
    """
    arguments = (x, gamma, beta, mean, variance, residual, epsilon, activation, of_batch)
    if x.device.type not in ("cpu", "meta"):
        _check(*arguments)
        return batch_norm_reference(*arguments)
    return call("batch_norm", _batch_norm, batch_norm_reference, _check, *arguments)


def batch_norm_reference(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    mean: Tensor,
    variance: Tensor,
    residual: Tensor | None = None,
    epsilon: float = 1e-5,
    activation: str = "none",
    of_batch: bool = True,
) -> Tensor:
    """The same as `batch_norm` in plain torch, on any device."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    wide = x.to(dtype)
    mean, variance = batch_moments_reference(wide) if of_batch else (mean.detach(), variance.detach())
    y = (wide - mean) * (gamma.to(dtype) * torch.rsqrt(variance + epsilon)) + beta.to(dtype)
    if residual is not None:
        y = y + residual.to(dtype)
    return _ACTIVATIONS[activation](y).to(x.dtype)


def _check(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    mean: Tensor,
    variance: Tensor,
    residual: Tensor | None,
    epsilon: float,
    activation: str,
    of_batch: bool,
) -> None:
    if activation not in _ACTIVATIONS:
        raise ArgumentError(f"batch_norm: expected an activation of {', '.join(_ACTIVATIONS)}, got {activation!r}")
    if residual is not None and activation not in _BESIDE_A_RESIDUAL:
        raise ArgumentError(f"batch_norm: expected activation none or relu beside a residual, got {activation!r}")
    check_tensor("batch_norm", "x", x)
    if x.dim() == 0:
        raise ShapeError("batch_norm: expected x of at least one dimension, got a scalar")
    columns, wide = x.shape[-1:], torch.promote_types(x.dtype, torch.float32)
    for name, column in (("gamma", gamma), ("beta", beta)):
        check_tensor("batch_norm", name, column, (x.dtype, torch.float32), x.device, columns)
    for name, column in (("mean", mean), ("variance", variance)):
        check_tensor("batch_norm", name, column, (wide,), x.device, columns)
    if residual is not None:
        check_tensor("batch_norm", "residual", residual, (x.dtype,), x.device, x.shape)


@fake("batch_norm")
def _(x: Tensor, *arguments: Any) -> Tensor:
    _check(x, *arguments)
    return x.new_empty(x.shape)


@fake("batch_norm_backward")
def _(
    grad: Tensor, x: Tensor, gamma: Tensor, beta: Tensor, mean: Tensor, variance: Tensor, y: Tensor | None, *_: Any
) -> tuple[Tensor, ...]:
    grad_residual = x.new_empty(0) if y is None else x.new_empty(x.shape)
    return x.new_empty(x.shape), gamma.new_empty(gamma.shape), beta.new_empty(beta.shape), grad_residual


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *columns, residual, epsilon, activation, of_batch = inputs
    ctx.has_residual = residual is not None
    # The residual is not kept: the result says where relu let its sum through.
    needs_result = ctx.has_residual and activation != "none"
    ctx.save_for_backward(*columns, output if needs_result else None)
    ctx.options = (epsilon, activation, of_batch)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    *columns, y = ctx.saved_tensors
    grad_x, grad_gamma, grad_beta, grad_residual = _batch_norm_backward(grad, *columns, y, *ctx.options)
    if y is None:
        grad_residual = grad if ctx.has_residual else None
    return grad_x, grad_gamma, grad_beta, None, None, grad_residual, None, None, None


def _gradients(
    grad: Tensor,
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    mean: Tensor,
    variance: Tensor,
    y: Tensor | None,
    epsilon: float,
    activation: str,
    of_batch: bool,
) -> tuple[Tensor, ...]:
    # Relu is the one activation beside a residual.
    if y is not None:
        grad, activation = grad.masked_fill(y <= 0, 0), "none"
    result = batch_norm_reference(x, gamma, beta, mean, variance, None, epsilon, activation, of_batch)
    grads = torch.autograd.grad(result, (x, gamma, beta), grad, create_graph=True)
    return *grads, x.flatten()[:0] if y is None else grad


autograd("batch_norm", _backward, _save)
autograd("batch_norm_backward", *second_derivative(_gradients))


def _example(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    mean, variance = torch.zeros_like(gamma, requires_grad=False), torch.ones_like(gamma, requires_grad=False)
    return batch_norm(x, gamma, beta, mean, variance, of_batch=False)


EXAMPLE = Example(_example, "rows", "row", "row")
