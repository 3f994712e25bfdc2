"""Cases of the decoder-only language model and of its attention."""

from typing import Any

import torch
from torch import Tensor

from burnlike import nn

from . import Case, floats


def causal_attention(layer: Any, x: Tensor, theta: float | None = None) -> Tensor:
    """softmax(q k^T / sqrt(d)) v with later keys left out (Vaswani et al. 2017, eq. 1)."""
    batch, length, d_model = x.shape
    heads = [it(x).reshape(batch, length, layer.n_heads, -1) for it in (layer.query, layer.key, layer.value)]
    query, key, value = (it.permute(0, 2, 1, 3) for it in heads)
    if theta is not None:
        query, key = rotated(query, theta), rotated(key, theta)
    scores = query @ key.mT / (d_model // layer.n_heads) ** 0.5
    hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
    weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    return layer.output((weights @ value).permute(0, 2, 1, 3).reshape(batch, length, d_model))


def rotated(x: Tensor, theta: float) -> Tensor:
    """Pairs as complex numbers, turned by position times frequency (Su et al. 2021, eq. 34)."""
    length, size = x.shape[-2:]
    frequencies = theta ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angles = torch.outer(torch.arange(length, dtype=torch.float64), frequencies)
    # The layer keeps cosines and sines in float32.
    turns = torch.complex(angles.cos().float().double(), angles.sin().float().double())
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(pairs * turns).flatten(-2)


def rms_norm(layer: Any, x: Tensor) -> Tensor:
    """Zhang & Sennrich 2019, eq. 4."""
    return x / (x.square().mean(-1, keepdim=True) + layer.epsilon).sqrt() * layer.gamma


def decoder_lm(model: Any, tokens: Tensor) -> Tensor:
    """Blocks of norm, attention and SwiGLU with residuals, and logits by the embedding's weight."""
    x = model.embedding.weight[tokens]
    for block in model.blocks:
        x = x + causal_attention(block.attention, rms_norm(block.norm_attention, x), model.config.theta)
        y = rms_norm(block.norm_feed_forward, x)
        inner = y @ block.gate.linear_inner.weight
        x = x + inner * inner.sigmoid() * (y @ block.gate.linear_outer.weight) @ block.linear.weight
    return rms_norm(model.norm, x) @ model.embedding.weight.mT


CASES = [
    Case(
        "CausalAttention", nn.CausalAttentionConfig(d_model=8, n_heads=2), lambda: (floats(2, 5, 8),), causal_attention
    ),
    Case(
        "DecoderLm",
        nn.DecoderLmConfig(vocab_size=7, max_sequence_length=6, d_model=8, n_layers=2, n_heads=2, d_ff=12),
        lambda: (torch.randint(7, (2, 5)),),
        decoder_lm,
    ),
]
