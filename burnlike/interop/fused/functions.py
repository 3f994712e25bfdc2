"""Functions of torch and transformers with native ops, for a fused model's code.

Each has the signature of the stock function, and calls it for arguments that the op does not take.
"""

import importlib
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ... import ops
from ...ops._arguments import autocast_dtype
from ...ops.cross_entropy import unrounded_loss
from .usable import takes_attention, takes_cross_entropy, takes_norm, takes_rotary


def layer_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    if not takes_norm(input, normalized_shape, weight, bias):
        return F.layer_norm(input, normalized_shape, weight, bias, eps)
    return ops.layer_norm(input, weight, bias, eps)  # pyright: ignore[reportArgumentType]


def rms_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    if weight is None or not takes_norm(input, normalized_shape, weight):
        return F.rms_norm(input, normalized_shape, weight, eps)
    if eps is None:  # that of the type that torch computes in
        eps = torch.finfo(torch.promote_types(input.dtype, torch.float32)).eps
    return ops.rms_norm(input, weight, eps)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: Any = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    is_usual = weight is None and size_average is None and reduce is None
    if not is_usual or not takes_cross_entropy(input, target, reduction, label_smoothing):
        return F.cross_entropy(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing)
    return ops.cross_entropy(
        input, target, ignore_index=ignore_index, label_smoothing=label_smoothing, reduction=reduction
    )


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    if not takes_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa):
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    return ops.attention(query, key, value, attn_mask, is_causal, scale)


def rotary(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, Tensor]:
    """transformers' `apply_rotary_pos_emb` of halves, with tables `[batch, sequence, d]`."""
    if not takes_rotary(q, k, cos, sin, unsqueeze_dim):
        cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
        return q * cos + _halves_turned(q) * sin, k * cos + _halves_turned(k) * sin
    dtype = torch.promote_types(q.dtype, cos.dtype)  # that of the products
    if autocast_dtype(q) != q.dtype:  # else attention rounds the results to these 16 bits
        q, k = q.to(dtype), k.to(dtype)
    if unsqueeze_dim == 2:
        q, k = q.transpose(1, 2), k.transpose(1, 2)
    q, k = (it.to(dtype) for it in ops.rotary(q, k, cos, sin))
    return (q, k) if unsqueeze_dim == 1 else (q.transpose(1, 2), k.transpose(1, 2))


def _halves_turned(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), -1)


def causal_lm_loss(
    logits: Tensor,
    labels: Tensor | None,
    vocab_size: int,
    num_items_in_batch: Tensor | int | None = None,
    ignore_index: int = -100,
    shift_labels: Tensor | None = None,
    **keywords: Any,
) -> Tensor:
    """transformers' loss of causal language models, without a float32 copy of the logits.

    Args:
        logits: `[batch, sequence, vocab_size]`.
        labels: `[batch, sequence]`, compared with the logits of the token before each.
        num_items_in_batch: what the sum of losses is divided by; None for the number of labels that count.
        shift_labels: in the place of labels: each compared with the logits at its place.
    """
    if not _takes_lm_loss(logits, labels if shift_labels is None else shift_labels, vocab_size):
        stock = _stock_loss("ForCausalLMLoss")
        return stock(logits, labels, vocab_size, num_items_in_batch, ignore_index, shift_labels, **keywords)
    if shift_labels is None:
        shift_labels = F.pad(labels, (0, 1), value=ignore_index)[..., 1:]  # pyright: ignore[reportArgumentType]
    return _lm_loss(logits, shift_labels, vocab_size, num_items_in_batch, ignore_index)


def masked_lm_loss(
    logits: Tensor,
    labels: Tensor,
    vocab_size: int,
    num_items_in_batch: Tensor | int | None = None,
    ignore_index: int = -100,
    **keywords: Any,
) -> Tensor:
    """transformers' loss of masked language models; as `causal_lm_loss` with labels at their places."""
    if not _takes_lm_loss(logits, labels, vocab_size):
        stock = _stock_loss("ForMaskedLMLoss")
        return stock(logits, labels, vocab_size, num_items_in_batch, ignore_index, **keywords)
    return _lm_loss(logits, labels, vocab_size, num_items_in_batch, ignore_index)


# By the name of a loss in transformers.loss.loss_utils.
LOSSES: dict[str, Callable[..., Tensor]] = {"ForCausalLMLoss": causal_lm_loss, "ForMaskedLMLoss": masked_lm_loss}


def _takes_lm_loss(logits: Any, labels: Any, vocab_size: Any) -> bool:
    if not isinstance(labels, Tensor) or not isinstance(logits, Tensor) or logits.dtype == torch.float64:
        return False
    if logits.dim() == 0 or logits.shape[-1] != vocab_size or labels.shape != logits.shape[:-1]:
        return False
    return logits.device == labels.device and takes_cross_entropy(
        logits.reshape(-1, vocab_size), labels.reshape(-1), "mean", 0.0
    )


def _stock_loss(name: str) -> Callable[..., Tensor]:
    return getattr(importlib.import_module("transformers.loss.loss_utils"), name)


def _lm_loss(
    logits: Tensor, labels: Tensor, vocab_size: int, num_items_in_batch: Tensor | int | None, ignore_index: int
) -> Tensor:
    reduction = "mean" if num_items_in_batch is None else "sum"
    loss = unrounded_loss(
        logits.reshape(-1, vocab_size), labels.reshape(-1), ignore_index=ignore_index, reduction=reduction
    )
    if isinstance(num_items_in_batch, Tensor):
        num_items_in_batch = num_items_in_batch.to(loss.device)
    return loss if num_items_in_batch is None else loss / num_items_in_batch
