"""Attention where each process has a part of every sequence: its queries see the keys and values of all."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..._torch_compat.fake_tensors import is_fake
from ..divided_sequence import DividedSequence
from .attend import attend_visible
from .masks import causally_visible


def attend_parts(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sequence: DividedSequence,
    *,
    sliding_window: int | None = None,
    soft_cap: float | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """As `attend_visible` with all that is before each query, in its document, no padding: of parts, and gives one.

    Keys and values behind a piece, or out of its window, are not computed with.
    """
    key, value = whole_keys(key, value, sequence)
    limits = (sliding_window, soft_cap, sequence.hidden, sequence.documents)
    # torch's description of what is visible is a tensor of its own, which is neither traced nor without values.
    sees_all = all(limit is None for limit in limits) and not (torch.compiler.is_compiling() or is_fake(query))
    contexts: list[Tensor] = []
    n_own = query.shape[2] // len(sequence.pieces)
    for piece, (begin, end) in zip(query.split(n_own, 2), sequence.pieces, strict=True):
        if sees_all:
            contexts.append(_attend_before(piece, key[:, :, :end], value[:, :, :end], dropout))
            continue
        first = 0 if sliding_window is None else max(begin - sliding_window + 1, 0)
        visible = causally_visible(
            torch.arange(begin, end, device=query.device),
            torch.arange(first, end, device=query.device),
            None if sequence.hidden is None else sequence.hidden[:, first:end],
            sliding_window,
            sequence.documents,
        )
        seen = slice(first, end)
        contexts.append(
            attend_visible(piece, key[:, :, seen], value[:, :, seen], visible, soft_cap=soft_cap, dropout=dropout)
        )
    return torch.cat(contexts, 1)


def _attend_before(query: Tensor, key: Tensor, value: Tensor, dropout: float) -> Tensor:
    """Attention of the last positions, which see all before them: flash attention on CUDA, without a mask in memory."""
    # Imports the whole compiler, which takes a second: only processes that divide sequences pay it.
    from torch.nn.attention.bias import causal_lower_right

    bias: Any = causal_lower_right(query.shape[2], key.shape[2])
    is_grouped = query.shape[1] != key.shape[1]
    context = functional.scaled_dot_product_attention(query, key, value, bias, dropout, enable_gqa=is_grouped)
    return context.transpose(1, 2).flatten(2)


def whole_keys(key: Tensor, value: Tensor, sequence: DividedSequence) -> tuple[Tensor, Tensor]:
    """The keys and values `[batch, n_heads_kv, all, d_head]` of all processes, exchanged at once."""
    if key.shape != value.shape or key.dtype != value.dtype:
        return sequence.whole(key, 2), sequence.whole(value, 2)
    both = sequence.whole(torch.stack((key, value)), 3)
    return both[0], both[1]
