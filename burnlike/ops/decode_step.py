"""The next tokens of each sequence, through all blocks of a decoder in one call on the CPU, with a cache."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ._arguments import check_same_device
from ._function import is_recorded, is_transformed
from ._library import WITHOUT_NATIVE, fake, flops, op, refuse_lazy_negation

_decode_step = op("decode_step")

MOST_ROWS = 32
"""Rows of a batch: products take 8 of them at a time, with a piece of the weights that stays in a core's cache."""

MOST_TOKENS = 128
"""Rows times tokens that one step takes."""

MOST_READ = {torch.float32: 128, torch.bfloat16: 64, torch.int8: 512}
"""Rows times tokens of a prompt up to which steps read it as fast as torch's products, by the dtype of weights: those
in int8 would have to be made floats first."""

ACTIVATIONS = ("silu", "gelu", "gelu_tanh", "relu")
"""In the order of DecodeActivation of csrc/cpu/isa/decode_step.h."""


MOST_HEAD_WIDTH = 1024
"""kMostHeadWidth of csrc/cpu/isa/decode_step.h."""


class DecodeForm(NamedTuple):
    """The form of a decoder's blocks, in the order of DecodeForm of csrc/cpu/decode_tensors.h.

    Attributes:
        activation: place in `ACTIVATIONS`.
        is_gated: whether the feed-forward part is linear(activation(x w) * (x v)); else there is no v.
        is_centered: whether norms subtract the mean and add a `beta`.
        has_projection_bias, has_output_bias, has_feed_forward_bias: of queries, keys and values, of the attention's
            output, of the feed-forward part.
        has_head_norms: whether queries and keys of each head have an RMS norm.
        interleaved: whether neighbours are turned together, else halves.
        is_tied: whether the head is a table `[vocab_size, d_model]`.
        window: how many positions one sees; 0 for all.
        has_memory: whether each block also attends to a memory.
        is_scaled: whether scores are divided by the square root of d_head.
        adds_to_normalized: whether what parts give is added to normalized vectors, as in BART: each norm is behind the
            part before it, the first one behind the embedding.
        has_tables: whether all linear layers' weights are `[d_output, d_input]`, as those of torch.
    """

    n_heads: int
    n_heads_kv: int
    d_head: int
    activation: int
    is_gated: bool = False
    is_centered: bool = False
    has_projection_bias: bool = False
    has_output_bias: bool = False
    has_feed_forward_bias: bool = False
    has_head_norms: bool = False
    interleaved: bool = False
    is_tied: bool = False
    window: int = 0
    has_memory: bool = False
    is_scaled: bool = True
    adds_to_normalized: bool = False
    has_tables: bool = False


def can_decode() -> bool:
    """True if the native op may run now: not where torch records, transforms, differentiates or casts what runs."""
    return not (
        "cpu" in WITHOUT_NATIVE
        or torch.is_grad_enabled()
        or torch.is_autocast_enabled("cpu")
        or torch.compiler.is_compiling()
        or is_recorded()
        or is_transformed()
    )


def decode_step(
    x: Tensor,
    weights: Sequence[Tensor],
    caches: Sequence[Tensor],
    starts: Tensor,
    tables: tuple[Tensor, Tensor] | None,
    filled: int,
    form: DecodeForm,
    *,
    epsilon: float,
    soft_cap: float | None = None,
    bias: Tensor | None = None,
    memory_ends: Tensor | None = None,
) -> Tensor:
    """The logits after the last of each row's tokens; keys and values of all are written into the caches.

    Arithmetic is in float32 whatever the weights are in, but products with weights in bfloat16 where the processor has
    them: these round what they multiply. The bits are the same for any number of threads, not on all instruction sets.

    Args:
        x: vectors of the tokens, float32 `[batch * new, d_model]`, row by row, up to `MOST_TOKENS`; it is written over.
        weights: in float32 or bfloat16, read where they lie. Of each block: norm, query, key, value, output, norms of
            queries and keys, norm, query and output of a memory, norm, feed-forward part; then norm and head. A linear
            layer's is `[d_input, d_output]` in rows or in columns, with its bias behind it; in int8 with its scales
            `[d_input, 1]` between the two. An empty gamma is no norm.
        caches: keys and values of each block, float32 or bfloat16 `[batch, n_heads_kv, length, d_head]`, each time
            followed by those of a memory.
        starts: int64 `[batch]`, the first slot of each row that is no padding; there its positions begin.
        tables: cosines and sines, float32 `[positions, up to d_head / 2]`, or None without a rotation.
        filled: how many slots are filled.
        epsilon: of the norms.
        soft_cap: attention scores s become cap * tanh(s / cap).
        bias: float32 `[n_heads, distances]`, added to the scores of keys by how many slots they are before the query.
        memory_ends: int64 `[batch]`, the last slot of each row's memory that is no padding; only with a memory.

    Returns:
        float32 `[batch, vocab_size]`.

    Raises:
        RuntimeError: a tensor does not fit, or no slot is left.
    """
    cosine, sine = tables or (None, None)
    numbers = (epsilon, soft_cap or 0.0)
    return _decode_step(x, weights, caches, starts, cosine, sine, bias, memory_ends, filled, form, numbers)


refuse_lazy_negation("decode_step")


@fake("decode_step")
def _(
    x: Tensor,
    weights: Sequence[Tensor],
    caches: Sequence[Tensor],
    starts: Tensor,
    cosine: Tensor | None,
    sine: Tensor | None,
    bias: Tensor | None,
    memory_ends: Tensor | None,
    filled: int,
    form: Sequence[int],
    numbers: Sequence[float],
) -> Tensor:
    check_same_device("decode_step", x, (*weights, *caches, starts, cosine, sine, bias, memory_ends))
    head = weights[-1] if weights[-1].ndim == 2 and weights[-1].shape[1] > 1 else weights[-2]  # int8 has scales behind
    return x.new_empty(starts.shape[0], head.shape[0 if DecodeForm._make(form).is_tied else 1])


@flops("decode_step")
def _(
    x: Sequence[int],
    weights: Sequence[Sequence[int]],
    caches: Sequence[Sequence[int]],
    starts: Sequence[int],
    cosine: object,
    sine: object,
    bias: object,
    memory_ends: object,
    filled: int,
    form: Sequence[int],
    *_: object,
    **__: object,
) -> int:
    sizes = DecodeForm._make(form)
    *products, head = (shape[0] * shape[1] for shape in weights if len(shape) == 2 and shape[1] > 1)
    seen = len(caches) * (2 * filled + x[0] // starts[0] + 1)  # twice the mean
    if sizes.has_memory:
        seen = seen // 2 + 2 * sum(shape[2] for shape in (*caches[2::4], *caches[3::4]))
    attended = sizes.n_heads * sizes.d_head * seen
    return x[0] * (2 * sum(products) + attended) + 2 * starts[0] * head
