"""A linear layer with a low-rank adapter: y = x (W + s A B) + bias (Hu et al. 2021, arXiv:2106.09685, eq. 3).

It has no kernel of its own, as all of its time is in torch's matrix products. What it gains is which of them run:
torch's autograd would compute the gradient of W + s A B, a product as large as the layer's own, and from it those of A
and B. They follow from x and the gradient of y by products of rank r alone.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..errors import ShapeError
from ._arguments import check_shape, check_storage, for_products
from ._divided import are_divided, on_parts
from ._function import is_transformed
from .linear import linear


def lora_linear(x: Tensor, weight: Tensor, a: Tensor, b: Tensor, bias: Tensor | None, scale: float) -> Tensor:
    """x @ (weight + scale * a @ b) + bias, of a weight that is not trained.

    Differentiable any number of times. A weight that requires a gradient, the transforms of `torch.func` and forward
    mode take the plain-torch form.

    Memory: saves x, and no tensor besides it and the parameters. Forward and backward each make the sum of the weights
    and free it. Time of both passes together: 2 products of x's size with the weight, where
    `functional.linear(x, weight + ...)` takes 3.

    Args:
        x: `[..., d_input]`.
        weight: `[d_input, d_output]`; converted to the element type of `a` if it has another.
        a: `[d_input, rank]`, in x's element type.
        b: `[rank, d_output]`.
        bias: `[d_output]` or None.
        scale: of the product.

    Returns:
        `[..., d_output]`, the bits of `lora_linear_reference` where `linear` has those of `functional.linear`.

    Raises:
        ShapeError: the shapes do not fit each other.
    """
    if are_divided(x, weight, a, b, bias):
        return on_parts("lora_linear", lora_linear, (x, weight, a, b, bias, scale))
    _check(x, weight, a, b, bias)
    if weight.requires_grad or is_transformed():
        return lora_linear_reference(x, weight, a, b, bias, scale)
    if not torch.compiler.is_compiling():
        named = {"x": x, "weight": weight, "a": a, "b": b, "bias": bias}
        check_storage("lora_linear", {name: value for name, value in named.items() if value is not None})
    # As functional.linear does; the passes run without autocast, in which its casts would be repeated.
    x, weight, a, b = for_products(x), for_products(weight), for_products(a), for_products(b)
    bias = None if bias is None else for_products(bias)
    return _LoraLinear.apply(x, weight, a, b, bias, scale)


def lora_linear_reference(x: Tensor, weight: Tensor, a: Tensor, b: Tensor, bias: Tensor | None, scale: float) -> Tensor:
    """The same as `lora_linear`, differentiated by torch, also in the weight."""
    return functional.linear(x, _effective(weight, a, b, scale).mT, bias)


def _effective(weight: Tensor, a: Tensor, b: Tensor, scale: float) -> Tensor:
    if weight.mT.is_contiguous():  # as a layer of torch holds it, in which its products are the fastest
        return torch.addmm(weight.mT.to(a.dtype), b.mT, a.mT, alpha=scale).mT
    return torch.addmm(weight.to(a.dtype), a, b, alpha=scale)


def _product(first: Tensor, second: Tensor, scale: float) -> Tensor:
    """scale * first @ second, rounded once."""
    return torch.addmm(first.new_zeros(()), first, second, beta=0, alpha=scale)


def _rows(x: Tensor) -> Tensor:
    """`[..., d]` as a matrix, also without any value, of which `reshape(-1, d)` can't tell the rows."""
    return x[None].flatten(0, -2)


class _LoraLinear(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, weight: Tensor, a: Tensor, b: Tensor, bias: Tensor | None, scale: float) -> Tensor:
        return linear(x, _effective(weight, a, b, scale).mT, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, weight, a, b, _, ctx.scale = inputs
        ctx.save_for_backward(x, weight, a, b)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        x, weight, a, b = ctx.saved_tensors
        x_needed, _, a_needed, b_needed, bias_needed, _ = ctx.needs_input_grad
        grad_rows, rows = _rows(grad), _rows(x)
        grad_x = linear(grad, _effective(weight, a, b, ctx.scale)) if x_needed else None
        grad_a = rows.mT @ _product(grad_rows, b.mT, ctx.scale) if a_needed else None
        grad_b = _product(rows, a, ctx.scale).mT @ grad_rows if b_needed else None
        grad_bias = grad_rows.sum(0) if bias_needed else None
        return grad_x, None, grad_a, grad_b, grad_bias, None


def _check(x: Tensor, weight: Tensor, a: Tensor, b: Tensor, bias: Tensor | None) -> None:
    if weight.dim() != 2 or a.dim() != 2:
        raise ShapeError(
            "lora_linear: expected weight of shape [d_input, d_output] and a of shape [d_input, rank], got"
            f" {list(weight.shape)} and {list(a.shape)}"
        )
    d_input, d_output = weight.shape
    if x.dim() == 0 or x.shape[-1] != d_input:
        raise ShapeError(f"lora_linear: expected x of shape [..., {d_input}], got {list(x.shape)}")
    check_shape("lora_linear", "a", a, (d_input, a.shape[1]))
    check_shape("lora_linear", "b", b, (a.shape[1], d_output))
    if bias is not None:
        check_shape("lora_linear", "bias", bias, (d_output,))
