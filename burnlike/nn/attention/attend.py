"""Attention of projected heads, fused where only its result is asked for, and the caches of earlier positions.

Where each process has a part of every sequence, its queries see the keys and values of all.
"""

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from ..._torch_compat.fake_tensors import is_fake
from ...ops import attention, masked_softmax, masked_softmax_reference, matmul
from ...ops.attention import attention_noise
from ...ops.bernoulli_noise import dropout as drop
from ..divided_sequence import DividedSequence
from ..dropout import Dropout
from ..layer import exports_to_onnx
from .masks import causally_visible

HEADS = {"": "divided", **dict.fromkeys(("query", "key", "value"), "colwise"), "output": "rowwise"}
"""The plan of attention by which processes share it: each has some heads."""

FUSED_BELOW = -1e3
"""Of a `min_float` up to this, exp(min_float - s) is 0 in every float type for scores s of a usual size."""


class Rules(Protocol):
    """Rules of weights from scores: those of hidden keys are `min_float`; the quiet softmax adds 1 to its divisor."""

    min_float: float
    quiet_softmax: bool
    dropout: Dropout


def split_heads(x: Tensor, d_head: int) -> Tensor:
    """`[batch, length, heads * d_head] -> [batch, heads, length, d_head]`, for as many heads as this process has."""
    return x.unflatten(-1, (x.shape[-1] // d_head, d_head)).transpose(1, 2)


def attend(
    query: Tensor, key: Tensor, value: Tensor, hidden: Tensor | None, rules: Rules, *, need_weights: bool
) -> tuple[Tensor | None, Tensor]:
    """softmax(q k^T / sqrt(d_head)) v (Vaswani et al. 2017, eq. 1), scores of hidden keys being `min_float`.

    A `min_float` up to `FUSED_BELOW` is taken for minus infinity; where all keys are hidden they have equal weights.

    Args:
        query: `[batch, n_heads, queries, d_head]`.
        key, value: `[batch, n_heads or a divisor, keys, d_head]`, each head for as many heads of the query in a row.
        hidden: bool `[batch, 1, 1 or queries, keys]`.
        rules: how scores become weights.
        need_weights: whether the weights are returned; without them fused attention computes the same.

    Returns:
        weights `[batch, n_heads, queries, keys]`, those of dropout, or None, of the scores' dtype (where nothing is
        hidden, within autocast, of that which torch's softmax has there); context
        `[batch, queries, n_heads * d_head]`.
    """
    if need_weights or rules.min_float > FUSED_BELOW:
        scores, value = _scores(query, key, value)
        weights = rules.dropout(_weights(scores, hidden, rules))
        context = matmul(weights, value)
    else:
        weights, context = None, _fused(query, key, value, hidden, rules)
    return weights if need_weights else None, context.transpose(1, 2).flatten(2)


def _weights(scores: Tensor, hidden: Tensor | None, rules: Rules) -> Tensor:
    if hidden is not None:
        if rules.min_float <= FUSED_BELOW and not rules.quiet_softmax:
            return _masked_softmax(scores, hidden)
        scores = scores.masked_fill(hidden, rules.min_float)
    # e^0 = 1 is the addend of the quiet softmax.
    return functional.pad(scores, (0, 1)).softmax(-1)[..., :-1] if rules.quiet_softmax else scores.softmax(-1)


def _masked_softmax(scores: Tensor, hidden: Tensor | None, *, causal: bool = False) -> Tensor:
    softmax = masked_softmax_reference if exports_to_onnx() else masked_softmax
    return softmax(scores, hidden, causal=causal)


def _scores(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """q k^T / sqrt(d_head), and the values of each head of the query."""
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    return matmul(query * query.shape[-1] ** -0.5, key.mT), value


def _fused(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor | None, rules: Rules) -> Tensor:
    if rules.quiet_softmax:
        key, value = functional.pad(key, (0, 0, 0, 1)), functional.pad(value, (0, 0, 0, 1))
    mask = None
    if hidden is not None:
        # Where all keys are hidden their scores are the same: those of a query of zeros. They need no mask: beside it
        # float32 would hold no logarithm of their number, from which torch's backward pass takes the weights.
        blind = hidden.all(-1, keepdim=True)
        query = query.masked_fill(blind, 0.0)
        masked = hidden if rules.quiet_softmax else hidden & ~blind
        mask = torch.zeros_like(hidden, dtype=query.dtype).masked_fill(masked, rules.min_float)
        if rules.quiet_softmax:
            mask = functional.pad(mask, (0, 1))
    return _attention(query, key, value, mask, rules.dropout.prob if rules.dropout.training else 0.0)


def _attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, causal: bool = False
) -> Tensor:
    noise = attention_noise(query, key, causal, dropout) if dropout else None
    if not dropout or noise is not None:
        return attention(query, key, value, mask, causal, noise=noise)
    grouped = query.shape[1] != key.shape[1]
    return functional.scaled_dot_product_attention(query, key, value, mask, dropout, causal, enable_gqa=grouped)


def attend_visible(
    query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, *, soft_cap: float | None, dropout: float
) -> Tensor:
    """softmax(q k^T / sqrt(d_head)) v over what is visible: query, key, value as of `attend` `-> [batch, queries, d]`.

    Args:
        visible: bool `[batch or 1, 1, queries, keys]`; each query sees something. None: itself and what is before it.
        soft_cap: scores s become soft_cap * tanh(s / soft_cap), which fused attention does not have.
        dropout: probability of dropping a weight.
    """
    if soft_cap is None:
        context = _attention(query, key, value, visible, dropout, causal=visible is None)
    else:
        scores, value = _scores(query, key, value)
        hidden = None if visible is None else ~visible
        weights = _masked_softmax((scores / soft_cap).tanh() * soft_cap, hidden, causal=visible is None)
        context = matmul(drop(weights, dropout), value)
    return context.transpose(1, 2).flatten(2)


class TensorCache:
    """A tensor that grows along one dimension, or is computed once; `tensor` is None at first."""

    def __init__(self) -> None:
        self.tensor: Tensor | None = None

    def append(self, new: Tensor, dim: int) -> Tensor:
        """All there is so far with `new` at the end of `dim`."""
        self.tensor = new if self.tensor is None else torch.cat((self.tensor, new), dim)
        return self.tensor

    def once(self, make: Callable[[], Tensor]) -> Tensor:
        """Return the result of the first call of `make`."""
        if self.tensor is None:
            self.tensor = make()
        return self.tensor

    def length(self, dim: int) -> int:
        """The size of `dim`, 0 at first."""
        return 0 if self.tensor is None else self.tensor.shape[dim]


class KeyValueCache:
    """Keys and values of the positions so far, in tensors of a fixed size, so that compiled code is compiled once.

    Attributes:
        key, value: `[batch, n_heads_kv, length, d_head]`; what is not filled yet is 0.
        filled: int64 `[]`, how many of the `length` slots are filled.
    """

    def __init__(self, key: Tensor, value: Tensor) -> None:
        self.key, self.value = key, value
        self.filled = torch.zeros((), dtype=torch.int64, device=key.device)

    @property
    def length(self) -> int:
        """The number of positions there is room for."""
        return self.key.shape[2]

    def repeated(self, copies: int) -> "KeyValueCache":
        """A cache in which each row is there `copies` times, one after the other."""
        cache = KeyValueCache(self.key.repeat_interleave(copies, 0), self.value.repeat_interleave(copies, 0))
        cache.filled.copy_(self.filled)
        return cache

    def next_slots(self, new: int) -> Tensor:
        """The slots of the next `new` positions, int64 `[new]`; the caller checks that there is room."""
        return self.filled + torch.arange(new, device=self.filled.device)

    def write(self, slots: Tensor, key: Tensor, value: Tensor) -> None:
        """Write keys and values `[batch, n_heads_kv, new, d_head]` into the next slots, in the cache's element type."""
        self.key.index_copy_(2, slots, key.to(self.key.dtype))
        self.value.index_copy_(2, slots, value.to(self.value.dtype))
        self.filled.add_(key.shape[2])


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
