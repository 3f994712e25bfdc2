"""Attention with a soft cap or noise in torch's own steps, on any device."""

from typing import Any

import torch
from torch import Tensor

from . import half_products
from ._function import is_transformed
from .masked_softmax import masked_softmax


class _Scores(torch.autograd.Function):
    """Products of 16-bit queries and keys in float32, with gradients by products in 16 bits."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor) -> Tensor:
        ctx.save_for_backward(query, key)
        return _in_order(query, torch.float32) @ _in_order(key, torch.float32).mT

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        query, key = ctx.saved_tensors
        gradient = gradients[0].to(query.dtype)
        return gradient @ key, gradient.mT @ query


def _in_order(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x.to(dtype, memory_format=torch.contiguous_format)


def attention_in_steps(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    causal: bool,
    scale: float | None,
    soft_cap: float | None,
    noise: Tensor | None,
) -> Tensor:
    """As `attention`, as torch computes it with dropout on CPUs: the weights in float32.

    Of 16 bits torch takes the values to float32, too. Where the CPU has fast products of 16 bits, weights and gradients
    are rounded to these before products, as in torch's attention without dropout.
    """
    dtype = query.dtype
    product_dtype = torch.float32 if dtype in half_products.SLOW or is_transformed() else dtype
    product_dtype = torch.promote_types(product_dtype, dtype)
    query, key, value = (_in_order(it, product_dtype) for it in (query, key, value))
    if (repeats := query.shape[1] // key.shape[1]) > 1:
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = _Scores.apply(query, key) if product_dtype.itemsize == 2 else query @ key.mT
    assert isinstance(scores, Tensor)
    if soft_cap is not None:
        scores, factor = soft_cap * torch.tanh(scores * (factor / soft_cap)), 1.0
    if causal and scores.shape[-2] != scores.shape[-1]:
        mask, causal = torch.ones_like(scores[0, 0], dtype=torch.bool).tril(), False
    if mask is None:
        weights = masked_softmax(scores, None, factor, causal)
    else:
        scores = torch.where(mask, scores * factor, -torch.inf) if mask.dtype == torch.bool else scores * factor + mask
        blind = (scores == -torch.inf).all(-1, keepdim=True)  # rows of which all is hidden have no weights
        # Filled before, too: the softmax of infinities alone is NaN, and so would be its gradient.
        weights = scores.masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0)
    weights = weights if noise is None else weights * noise
    return (weights.to(product_dtype) @ value).to(dtype)
