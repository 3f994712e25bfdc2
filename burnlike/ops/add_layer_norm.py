"""The sum of two tensors and its layer normalization, in one pass: x + residual, which a block's next sum needs, and
layer_norm(x + residual)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ._example import Example
from ._function import call, second_derivative
from ._library import autograd, fake, op
from .layer_norm import check_norm, layer_norm_reference

_add_layer_norm = op("add_layer_norm")


def add_layer_norm(
    x: Tensor, residual: Tensor, gamma: Tensor, beta: Tensor | None = None, epsilon: float = 1e-5
) -> tuple[Tensor, Tensor]:
    """`layer_norm` of x + residual, and the sum itself; all else is as for `add_rms_norm`.

    Args:
        x, residual, gamma: as for `add_rms_norm`.
        beta: `[d]`, of gamma's dtype, or None for zeros.
        epsilon: added to the variance.

    Returns:
        The normalized sum and the sum, each `[..., d]`, contiguous, in x's dtype.
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


def differentiate_sum_and_norm(
    name: str, backward_name: str, check: Callable[..., None], norm: Callable[..., Tensor], *, has_beta: bool
) -> None:
    """Give an op of the sum of two tensors and its normalization its fake and its derivatives.

    Args:
        name: of the op.
        backward_name: of the op of its derivative.
        check: of the op's arguments.
        norm: the normalization in plain torch: of the sum, gamma, beta if it has one, and epsilon.
        has_beta: whether the op takes beta, which may be None, behind gamma.
    """
    backward_op = op(backward_name)

    @fake(name)
    def _(x: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
        check(x, *arguments)
        return x.new_empty(x.shape), x.new_empty(x.shape)

    @fake(backward_name)
    def _(grad: Tensor, grad_total: Tensor | None, total: Tensor, gamma: Tensor, epsilon: float) -> tuple[Tensor, ...]:
        return total.new_empty(total.shape), *(gamma.new_empty(gamma.shape) for _ in range(1 + has_beta))

    def save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.epsilon, ctx.beta_given = inputs[-1], has_beta and inputs[3] is not None
        ctx.save_for_backward(output[1], inputs[2])
        ctx.set_materialize_grads(False)

    def backward(ctx: Any, grad: Tensor | None, grad_total: Tensor | None) -> tuple[Tensor | None, ...]:
        total, gamma = ctx.saved_tensors
        if grad is None:  # the sum alone was used
            return grad_total, grad_total, *(None,) * (2 + has_beta)
        grad_x, grad_gamma, *grad_beta = backward_op(grad, grad_total, total, gamma, ctx.epsilon)
        return grad_x, grad_x, grad_gamma, *(grad_beta if ctx.beta_given else [None] * has_beta), None

    def gradients(
        grad: Tensor, grad_total: Tensor | None, total: Tensor, gamma: Tensor, epsilon: float
    ) -> tuple[Tensor, ...]:
        leaves = total, gamma, *([torch.zeros_like(gamma, requires_grad=True)] if has_beta else [])
        grad_x, *grads = torch.autograd.grad(norm(*leaves, epsilon), leaves, grad, create_graph=True)
        return grad_x if grad_total is None else grad_x + grad_total, *grads

    autograd(name, backward, save)
    autograd(backward_name, *second_derivative(gradients))


differentiate_sum_and_norm("add_layer_norm", "add_layer_norm_backward", _check, layer_norm_reference, has_beta=True)

EXAMPLE = Example(lambda *tensors: add_layer_norm(*tensors)[0], "rows", "rows", "row", "row")
