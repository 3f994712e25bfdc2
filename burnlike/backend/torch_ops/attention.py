"""Scaled dot product attention: torch's fused kernels where they can, else the formula."""

import torch
import torch.nn.functional as F
from torch import Tensor


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    scale: float,
    softcap: float | None,
    is_causal: bool,
    /,
) -> Tensor:
    """`[batch, heads, q, d], [batch, heads, k, d], [batch, heads, k, dv] -> [batch, heads, q, dv]`."""
    if softcap is not None:
        return attention_fallback(query, key, value, mask, bias, scale, softcap, is_causal)
    if mask is None and bias is None and (not is_causal or query.shape[2] == key.shape[2]):
        return F.scaled_dot_product_attention(query, key, value, is_causal=is_causal, scale=scale)
    hidden = _hidden(mask, query, key, is_causal)
    if hidden is None:
        return F.scaled_dot_product_attention(query, key, value, bias, scale=scale)
    # What the kernels make of rows that see nothing, and of their gradients, differs: they see all and are set to 0.
    blind = hidden.all(-1, keepdim=True)
    hidden = hidden & ~blind
    seen = ~hidden if bias is None else bias.masked_fill(hidden, -torch.inf)
    return F.scaled_dot_product_attention(query, key, value, seen, scale=scale).masked_fill(blind, 0.0)


def attention_fallback(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    scale: float,
    softcap: float | None,
    is_causal: bool,
    /,
) -> Tensor:
    """The formula; rows of which nothing is seen are 0 and have gradient 0."""
    scores = query @ key.transpose(-2, -1) * scale
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    hidden = _hidden(mask, query, key, is_causal)
    if hidden is not None:
        scores = scores.masked_fill(hidden, -torch.inf)
    if bias is not None:
        scores = scores + bias
    blind = scores.detach().amax(-1, True) == -torch.inf
    weights = torch.softmax(scores.masked_fill(blind, 0.0), -1).masked_fill(blind, 0.0)
    return weights.to(value.dtype) @ value


def _hidden(mask: Tensor | None, query: Tensor, key: Tensor, is_causal: bool) -> Tensor | None:
    """True where a query does not see a key, of a shape that broadcasts to the scores; None where all is seen."""
    if not is_causal:
        return mask
    rows, columns = query.shape[2], key.shape[2]
    later = torch.ones(rows, columns, dtype=torch.bool, device=query.device).triu(columns - rows + 1)
    return later if mask is None else mask | later
