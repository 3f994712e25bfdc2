"""softmax(scale * scores) over the last dimension, of what neither a mask nor causality hides (Vaswani et al. 2017)."""

from typing import Any

import torch
from torch import Tensor

from ..errors import ShapeError
from ._arguments import check_tensor
from ._example import Example
from ._function import call, second_derivative
from ._library import autograd, fake, op

_masked_softmax = op("masked_softmax")
_masked_softmax_backward = op("masked_softmax_backward")


def masked_softmax(scores: Tensor, mask: Tensor | None = None, scale: float = 1.0, causal: bool = False) -> Tensor:
    """exp(scale * scores) of what is seen, divided by its sum over the last dimension; 0 for what is hidden.

    A row of which all is hidden has equal weights, 1 / columns, and gradients of 0, as in `MultiHeadAttention`, which
    gives hidden keys a finite score; with scores of -inf torch's softmax is NaN there. NaN and infinities among the
    seen scores make the weights that they make in torch.

    Differentiable any number of times in `scores`, from the second derivative on in plain torch. A gradient of a hidden
    weight is not read, also if it is NaN.

    Memory: the result, and backward the gradient. The result and the mask are saved for backward, nothing else.

    Args:
        scores: `[..., rows, columns]`, float32, float16, bfloat16 or float64, on a CPU or CUDA device; `[columns]` if
            not causal.
        mask: bool, True where a column is hidden; broadcast to the scores without being expanded in memory.
        scale: of the scores.
        causal: whether a row sees only the columns up to its own place, the last row being that of the last column:
            hidden is column > row + columns - rows.

    Returns:
        `[..., rows, columns]`, contiguous, in the scores' dtype, computed in float32 (float64 for float64).
    """
    return call("masked_softmax", _masked_softmax, masked_softmax_reference, _check, scores, mask, scale, causal)


def masked_softmax_reference(
    scores: Tensor, mask: Tensor | None = None, scale: float = 1.0, causal: bool = False
) -> Tensor:
    """The same as `masked_softmax` in plain torch, on any device."""
    dtype = torch.promote_types(scores.dtype, torch.float32)
    hidden = _hidden(scores, mask, causal)
    if hidden is None:
        return (scores.to(dtype) * scale).softmax(-1).to(scores.dtype)
    # Filled before, too, as 0 times an infinite scale would be the gradient. What is wholly hidden has equal scores.
    scaled = scores.to(dtype).masked_fill(hidden, 0.0) * scale
    blind = hidden.all(-1, keepdim=True)
    return scaled.masked_fill(hidden, -torch.inf).masked_fill(blind, 0.0).softmax(-1).to(scores.dtype)


def _hidden(scores: Tensor, mask: Tensor | None, causal: bool) -> Tensor | None:
    if not causal:
        return mask
    rows, columns = scores.shape[-2:]
    later = torch.ones(rows, columns, dtype=torch.bool, device=scores.device).triu(columns - rows + 1)
    return later if mask is None else mask | later


def _check(scores: Tensor, mask: Tensor | None, scale: float, causal: bool) -> None:
    check_tensor("masked_softmax", "scores", scores)
    if scores.dim() < 1 + causal:
        expected = "[..., rows, columns], as causality has rows" if causal else "[..., columns]"
        raise ShapeError(f"masked_softmax: expected scores of shape {expected}, got {list(scores.shape)}")
    if mask is None:
        return
    check_tensor("masked_softmax", "mask", mask, (torch.bool,), scores.device)
    sizes = zip(reversed(mask.shape), reversed(scores.shape), strict=False)
    if mask.dim() > scores.dim() or any(size not in (1, full) for size, full in sizes):
        raise ShapeError(
            f"masked_softmax: expected mask that broadcasts to {list(scores.shape)}, got {list(mask.shape)}"
        )


@fake("masked_softmax")
def _(scores: Tensor, mask: Tensor | None, scale: float, causal: bool) -> Tensor:
    _check(scores, mask, scale, causal)
    return scores.new_empty(scores.shape)


@fake("masked_softmax_backward")
def _(grad: Tensor, y: Tensor, mask: Tensor | None, scale: float, causal: bool) -> Tensor:
    return y.new_empty(y.shape)


def _save(ctx: Any, inputs: tuple[Tensor, Tensor | None, float, bool], output: Tensor) -> None:
    _, mask, ctx.scale, ctx.causal = inputs
    ctx.save_for_backward(output, mask)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
    y, mask = ctx.saved_tensors
    return _masked_softmax_backward(grad, y, mask, ctx.scale, ctx.causal), None, None, None


def _gradients(grad: Tensor, y: Tensor, mask: Tensor | None, scale: float, causal: bool) -> tuple[Tensor]:
    dtype = torch.promote_types(y.dtype, torch.float32)
    hidden = _hidden(y, mask, causal)
    upper = grad.to(dtype)
    weights = y.to(dtype)
    if hidden is not None:
        upper, weights = upper.masked_fill(hidden, 0.0), weights.masked_fill(hidden, 0.0)
    grad_scores = weights * (upper - (upper * weights).sum(-1, keepdim=True)) * scale
    return ((grad_scores if hidden is None else grad_scores.masked_fill(hidden, 0.0)).to(y.dtype),)


autograd("masked_softmax", _backward, _save)
autograd("masked_softmax_backward", *second_derivative(_gradients))

EXAMPLE = Example(masked_softmax, "rows")
