"""Attention where each process has a part of every sequence: its queries see the keys and values of all."""

import torch
from torch import Tensor

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
    found: list[Tensor] = []
    n_own = query.shape[2] // len(sequence.pieces)
    for own, (begin, end) in zip(query.split(n_own, 2), sequence.pieces, strict=True):
        first = 0 if sliding_window is None else max(begin - sliding_window + 1, 0)
        visible = causally_visible(
            torch.arange(begin, end, device=query.device),
            torch.arange(first, end, device=query.device),
            None if sequence.hidden is None else sequence.hidden[:, first:end],
            sliding_window,
            sequence.documents,
        )
        seen = slice(first, end)
        found.append(
            attend_visible(own, key[:, :, seen], value[:, :, seen], visible, soft_cap=soft_cap, dropout=dropout)
        )
    return torch.cat(found, 1)


def whole_keys(key: Tensor, value: Tensor, sequence: DividedSequence) -> tuple[Tensor, Tensor]:
    """The keys and values `[batch, n_heads_kv, all, d_head]` of all processes, exchanged at once."""
    if key.shape != value.shape or key.dtype != value.dtype:
        return sequence.whole(key, 2), sequence.whole(value, 2)
    both = sequence.whole(torch.stack((key, value)), 3)
    return both[0], both[1]
