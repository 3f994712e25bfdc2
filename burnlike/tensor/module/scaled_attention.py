"""Scaled dot product attention."""

from typing import Any

import torch

from ...errors import TensorValueError
from ..core.base import B2, FloatLike, Tensor, like
from ..core.kinds import D4, Bool, Float
from ..core.operands import computed, inner_as, inner_of, ranked_spec
from ..options import AttentionModuleOptions

_DEFAULTS = AttentionModuleOptions()


def attention(
    query: "Tensor[B2, D4, Float]",
    key: "FloatLike[B2, D4]",
    value: "FloatLike[B2, D4]",
    mask: "Tensor[B2, D4, Bool] | torch.Tensor | None" = None,
    attn_bias: "FloatLike[B2, D4] | None" = None,
    options: AttentionModuleOptions = _DEFAULTS,
) -> "Tensor[B2, D4, Float]":
    """softmax(query key^T * scale) value. `[batch, heads, q, d], [.., k, d], [.., k, dv] -> [batch, heads, q, dv]`.

    Scores are scaled, capped, hidden by the mask and by causality, and then the bias is added. A query that sees no
    key gives 0. Mask, True where a query does not see a key, and bias are `[batch, heads, q, k]`; sizes may be 1.

    Torch: `F.scaled_dot_product_attention`.
    Differs: mask True hides; a cap of the scores; with fewer queries than keys the last query is at the last key.
    """
    return _attention("attention", query, key, value, mask, attn_bias, options)


def attention_fallback(
    query: "Tensor[B2, D4, Float]",
    key: "FloatLike[B2, D4]",
    value: "FloatLike[B2, D4]",
    mask: "Tensor[B2, D4, Bool] | torch.Tensor | None" = None,
    attn_bias: "FloatLike[B2, D4] | None" = None,
    options: AttentionModuleOptions = _DEFAULTS,
) -> "Tensor[B2, D4, Float]":
    """The same as `attention` by the formula, never by a fused kernel: slower, and differentiable twice.
    Torch: none.
    """
    return _attention("attention_fallback", query, key, value, mask, attn_bias, options)


def _attention(
    name: str, query: Any, key: Any, value: Any, mask: Any, attn_bias: Any, options: AttentionModuleOptions
) -> Any:
    spec = ranked_spec(name, query, 4)
    keys, values = inner_as(name, key, spec), inner_as(name, value, spec)
    hidden = None if mask is None else inner_of(name, mask, spec.bool)
    bias = None if attn_bias is None else inner_as(name, attn_bias, spec)
    if not (hidden is None and bias is None and query.inner.shape == keys.shape == values.shape):
        _check_shapes(query.inner.shape, keys.shape, values.shape, {"mask": hidden, "attn_bias": bias})
    scale = query.inner.shape[3] ** -0.5 if options.scale is None else options.scale
    function, choices = getattr(spec.module, name), (scale, options.softcap, options.is_causal)
    return like(computed(name, function, query.inner, keys, values, hidden, bias, *choices), spec)


def _check_shapes(
    query: torch.Size, key: torch.Size, value: torch.Size, scores: dict[str, torch.Tensor | None]
) -> None:
    reasons: list[str] = []
    batch, heads, rows, size = query
    if tuple(key[:2]) != (batch, heads) or key[3] != size:
        reasons.append(f"key: expected shape [{batch}, {heads}, k, {size}] as of the query, got {list(key)}")
    if value[:3] != key[:3]:
        reasons.append(f"value: expected shape {[*key[:3], 'dv']} as of the key, got {list(value)}")
    wanted = (batch, heads, rows, key[2])
    # No `in (1, size)`: it would not find the sizes that torch.compile traces.
    for name, tensor in scores.items():
        if tensor is not None and any(it != 1 and it != size for it, size in zip(tensor.shape, wanted, strict=True)):
            reasons.append(f"{name}: expected shape {list(wanted)}, or 1 for a size, got {list(tensor.shape)}")
    if reasons:
        raise TensorValueError("Attention", *reasons)
