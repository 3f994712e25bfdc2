"""Cases of causal attention."""

from typing import Any

import torch
from torch import Tensor

from burnlike import nn

from . import Case, floats


def causal_attention(layer: Any, x: Tensor, mask_pad: Tensor | None = None, theta: float | None = None) -> Tensor:
    """softmax(q k^T / sqrt(d)) v with later keys left out (Vaswani et al. 2017, eq. 1).

    Each head of keys and values serves a group of queries; a window and a cap as the layer has them.
    """
    batch, length, _ = x.shape
    size = layer.query.weight.shape[1] // layer.n_heads
    heads = [it(x).reshape(batch, length, -1, size) for it in (layer.query, layer.key, layer.value)]
    query, key, value = (it.permute(0, 2, 1, 3) for it in heads)
    if theta is not None:
        query, key = rotated(query, theta), rotated(key, theta)
    group = query.shape[1] // key.shape[1]
    key, value = (torch.stack([it[:, head // group] for head in range(layer.n_heads)], 1) for it in (key, value))
    scores = query @ key.mT / size**0.5
    if layer.soft_cap is not None:
        scores = layer.soft_cap * torch.tanh(scores / layer.soft_cap)
    window = layer.sliding_window or length
    for place in range(length):
        for other in range(length):
            if other > place or place - other >= window:
                scores[:, :, place, other] = -torch.inf
            elif mask_pad is not None and other != place:
                scores[:, :, place, other] = scores[:, :, place, other].masked_fill(
                    mask_pad[:, other, None], -torch.inf
                )
    return layer.output((scores.softmax(-1) @ value).permute(0, 2, 1, 3).flatten(2))


def rotated(x: Tensor, theta: float) -> Tensor:
    """Pairs as complex numbers, turned by position times frequency (Su et al. 2021, eq. 34)."""
    length, size = x.shape[-2:]
    frequencies = theta ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angles = torch.outer(torch.arange(length, dtype=torch.float64), frequencies)
    # The layer keeps cosines and sines in float32.
    turns = torch.complex(angles.cos().float().double(), angles.sin().float().double())
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(pairs * turns).flatten(-2)


CONFIG = nn.CausalAttentionConfig(d_model=8, n_heads=2)
GROUPED = CONFIG.replace(n_heads=4, n_heads_kv=2, d_head=3, bias=True, output_bias=True)
LEFT = torch.tensor([[True, True, False, False, False], [False] * 5])

CASES = [
    Case("CausalAttention", CONFIG, lambda: (floats(2, 5, 8),), causal_attention, bad_shapes=((2, 5, 7), (5, 8))),
    Case("CausalAttention/grouped", GROUPED, lambda: (floats(2, 5, 8),), causal_attention),
    Case("CausalAttention/window", CONFIG.replace(sliding_window=2), lambda: (floats(2, 5, 8),), causal_attention),
    Case("CausalAttention/capped", GROUPED.replace(soft_cap=0.5), lambda: (floats(2, 5, 8),), causal_attention),
    Case(
        "CausalAttention/rotary",
        CONFIG.replace(rotary=nn.RotaryEncodingConfig(max_sequence_length=5, d_model=4, theta=100.0)),
        lambda: (floats(2, 5, 8),),
        lambda layer, x: causal_attention(layer, x, theta=100.0),
    ),
    Case("CausalAttention/padded", CONFIG, lambda: (floats(2, 5, 8), LEFT), causal_attention),
    Case(
        "CausalAttention/all",
        GROUPED.replace(soft_cap=0.5, sliding_window=3),
        lambda: (floats(2, 5, 8), LEFT),
        causal_attention,
    ),
]
