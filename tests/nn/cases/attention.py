"""Cases of attention and of the encodings of positions."""

import math
from typing import Any

import torch
from torch import Tensor

from burnlike import nn

from . import Case, floats
from .causal_attention import rotated


def attention(
    layer: Any,
    query: Tensor,
    key: Tensor | None = None,
    value: Tensor | None = None,
    mask_pad: Tensor | None = None,
    mask_attn: Tensor | None = None,
    *,
    need_weights: bool = True,
) -> tuple[Tensor, ...]:
    """Head by head: hidden scores are min_float, and the quiet softmax is e^s / (1 + sum(e^s))."""
    key = query if key is None else key
    value = key if value is None else value
    queries, keys, values = layer.query(query), layer.key(key), layer.value(value)
    every, contexts = [], []
    for head in range(layer.n_heads):
        part = slice(head * layer.d_k, (head + 1) * layer.d_k)
        scores = queries[..., part] @ keys[..., part].mT / math.sqrt(layer.d_k)
        if mask_pad is not None:
            scores = torch.where(mask_pad[:, None], layer.min_float, scores)
        if mask_attn is not None:
            scores = torch.where(mask_attn, layer.min_float, scores)
        powers = scores.exp()
        weights = powers / (1 + powers.sum(-1, keepdim=True)) if layer.quiet_softmax else scores.softmax(-1)
        every.append(weights)
        contexts.append(weights @ values[..., part])
    context = layer.output(torch.cat(contexts, -1))
    return (torch.stack(every, 1), context) if need_weights else (context,)


def cross_attention(layer: Any, query: Tensor, context: Tensor, mask: Tensor | None = None) -> Tensor:
    """Each head of keys and values serves n_heads / n_heads_kv heads of queries in a row."""
    size, group = layer.d_head, layer.n_heads // layer.n_heads_kv
    queries, keys, values = layer.query(query), layer.key(context), layer.value(context)
    contexts = []
    for head in range(layer.n_heads):
        part = slice(head // group * size, (head // group + 1) * size)
        scores = queries[..., head * size : (head + 1) * size] @ keys[..., part].mT / math.sqrt(size)
        if mask is not None:
            scores = torch.where(mask[:, None], layer.min_float, scores)
        powers = scores.exp()
        weights = powers / (1 + powers.sum(-1, keepdim=True)) if layer.quiet_softmax else scores.softmax(-1)
        contexts.append(weights @ values[..., part])
    return layer.output(torch.cat(contexts, -1))


def sinusoids(layer: Any, x: Tensor) -> Tensor:
    """Vaswani et al. 2017, section 3.5; the layer keeps them in float32."""
    size = x.shape[-1]
    table = [
        [(math.cos if i % 2 else math.sin)(p / layer.max_timescale ** ((i - i % 2) / size)) for i in range(size)]
        for p in range(x.shape[1])
    ]
    return x + torch.tensor(table, dtype=torch.float64).float().double()


def relative_bias(layer: Any, queries: int, keys: int, start: int = 0) -> Tensor:
    """Raffel et al. 2020, section 2.1, as their program counts buckets: one for each of the near distances."""
    n_buckets, n_heads = layer.weight.shape
    bias = torch.empty(1, n_heads, queries, keys, dtype=torch.float64)
    for query in range(queries):
        for key in range(keys):
            distance, first, count = start + query - key, 0, n_buckets
            if layer.bidirectional:
                count //= 2
                distance, first = abs(distance), count if distance < 0 else 0
            distance, exact = max(distance, 0), count // 2
            if distance >= exact:
                far = math.log(distance / exact) / math.log(layer.max_distance / exact) * (count - exact)
                distance = min(exact + int(far), count - 1)
            bias[0, :, query, key] = layer.weight[first + distance]
    return bias


def hidden(*rows: str) -> Tensor:
    """A mask, `x` for what is hidden."""
    return torch.tensor([[letter == "x" for letter in row] for row in rows])


def three(query: int = 3, keys: int = 4, size: int = 8) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value of a batch of two."""
    return floats(2, query, size), floats(2, keys, size), floats(2, keys, size)


OF_SIZES = {"vmap": "it takes sizes, no tensors", "typed": "it takes sizes, no tensors"}
NO_WEIGHTS = {"vmap": "torch.vmap takes no None among the outputs, where the weights would be"}
MHA = nn.MultiHeadAttentionConfig(d_model=8, n_heads=2, dropout=0.0)
CROSS = nn.CrossAttentionConfig(d_model=6, d_context=5, n_heads=4, n_heads_kv=2, d_head=2, dropout=0.0)
PAD = hidden("..x.", "x..x")
CAUSAL = hidden("..xx", "...x", "....")[None].expand(2, -1, -1)

CASES = [
    Case(
        "MultiHeadAttention",
        MHA,
        three,
        torch_inputs=lambda *inputs: (*inputs, None, True, None, False),
        torch_output=lambda output: output[::-1],
        bad_shapes=((2, 3), (2, 3, 7), (3, 3, 8)),
    ),
    Case(
        "MultiHeadAttention/quiet",
        MHA.replace(quiet_softmax=True, query_bias=False, key_bias=False, value_bias=False, output_bias=False),
        three,
        reference=attention,
    ),
    Case(
        "MultiHeadAttention/masked",
        MHA,
        lambda: (*three(), PAD, CAUSAL),
        torch_inputs=lambda *inputs: (*inputs[:4], True, inputs[4].repeat_interleave(2, 0), False),
        torch_output=lambda output: output[::-1],
        bad_shapes=((3, 3, 8),),
    ),
    Case("MultiHeadAttention/self", MHA.replace(key_bias=False), lambda: (floats(2, 4, 8),), reference=attention),
    Case(
        "MultiHeadAttention/fused",
        MHA,
        lambda: (*three(), PAD, CAUSAL, {"need_weights": False}),
        reference=attention,
        not_in=NO_WEIGHTS,
    ),
    Case(
        "MultiHeadAttention/all_hidden",
        MHA,
        lambda: (*three(), hidden("xxxx", ".x.x"), CAUSAL, {"need_weights": False}),
        reference=attention,
        not_in=NO_WEIGHTS,
    ),
    Case(
        "MultiHeadAttention/all_hidden_weights",
        MHA,
        lambda: (*three(), hidden("xxxx", ".x.x"), CAUSAL),
        reference=attention,
    ),
    Case(
        "MultiHeadAttention/quiet_fused",
        MHA.replace(quiet_softmax=True),
        lambda: (*three(), hidden("xxxx", ".x.x"), {"need_weights": False}),
        reference=attention,
        not_in=NO_WEIGHTS,
    ),
    Case(
        "MultiHeadAttention/small_min_float",
        MHA.replace(min_float=-2.0),
        lambda: (*three(), PAD, {"need_weights": False}),
        reference=attention,
        not_in=NO_WEIGHTS,
    ),
    Case(
        "CrossAttention",
        CROSS,
        lambda: (floats(2, 3, 6), floats(2, 4, 5)),
        reference=cross_attention,
        bad_shapes=((2, 3, 5), (1, 3, 6)),
    ),
    Case(
        "CrossAttention/masked",
        CROSS.replace(n_heads_kv=4),
        lambda: (floats(2, 3, 6), floats(2, 4, 5), hidden("..x.", "xxxx")),
        reference=cross_attention,
    ),
    Case(
        "CrossAttention/quiet",
        CROSS.replace(n_heads_kv=1, quiet_softmax=True, min_float=-5.0),
        lambda: (floats(2, 3, 6), floats(2, 4, 5), hidden("..x.", "xxxx")),
        reference=cross_attention,
    ),
    Case(
        "PositionalEncoding",
        nn.PositionalEncodingConfig(d_model=6, max_sequence_size=5, max_timescale=100),
        lambda: (floats(2, 4, 6),),
        reference=sinusoids,
        bad_shapes=((2, 6, 6), (2, 4, 5), (4, 6)),
    ),
    Case(
        "RelativePositionBias",
        nn.RelativePositionBiasConfig(n_heads=2, n_buckets=8, max_distance=7),
        lambda: (9, 11),
        reference=relative_bias,
        not_in=OF_SIZES,
    ),
    Case(
        "RelativePositionBias/causal",
        nn.RelativePositionBiasConfig(n_heads=2, n_buckets=6, max_distance=11, bidirectional=False),
        lambda: (3, 20, {"start": 15}),
        reference=relative_bias,
        not_in=OF_SIZES,
    ),
    Case(
        "RotaryEncoding",
        nn.RotaryEncodingConfig(d_model=6, max_sequence_length=5, theta=100.0),
        lambda: (floats(2, 3, 4, 6),),
        reference=lambda layer, x: rotated(x, layer.config.theta),
        bad_shapes=((2, 6, 6), (2, 4, 5), (6,)),
    ),
]
