"""A decoder in the layout of Llama, written out in torch (Touvron et al. 2023; Ainslie et al. 2023)."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from burnlike.models import DecoderLmConfig

NAMES: Mapping[str, str] = {
    r"\.gate\.linear_inner": ".gate",
    r"\.gate\.linear_outer": ".up",
    r"\.linear\.": ".down.",
}
"""Patterns in the paths of ours, and what is here in place of it."""


def rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """The halves of the last dimension as pairs (Su et al. 2021, eq. 34)."""
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat((-second, first), -1) * sine


class Attention(nn.Module):
    def __init__(self, config: DecoderLmConfig) -> None:
        super().__init__()
        self.size = config.head_size
        keys = (config.n_heads_kv or config.n_heads) * self.size
        self.query = nn.Linear(config.d_model, config.n_heads * self.size, bias=False)
        self.key = nn.Linear(config.d_model, keys, bias=False)
        self.value = nn.Linear(config.d_model, keys, bias=False)
        self.output = nn.Linear(config.n_heads * self.size, config.d_model, bias=False)

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        query, key, value = (
            projection(x).unflatten(-1, (-1, self.size)).transpose(1, 2)
            for projection in (self.query, self.key, self.value)
        )
        query, key = rotated(query, cosine, sine), rotated(key, cosine, sine)
        context = functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return self.output(context.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, config: DecoderLmConfig) -> None:
        super().__init__()
        self.norm_attention = nn.RMSNorm(config.d_model, config.norm_epsilon)
        self.attention = Attention(config)
        self.norm_feed_forward = nn.RMSNorm(config.d_model, config.norm_epsilon)
        self.gate = nn.Linear(config.d_model, config.d_ff, bias=False)
        self.up = nn.Linear(config.d_model, config.d_ff, bias=False)
        self.down = nn.Linear(config.d_ff, config.d_model, bias=False)

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        x = x + self.attention(self.norm_attention(x), cosine, sine)
        y = self.norm_feed_forward(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class DecoderLm(nn.Module):
    def __init__(self, config: DecoderLmConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        self.norm = nn.RMSNorm(config.d_model, config.norm_epsilon)
        self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        rates = config.theta ** (-torch.arange(0, config.head_size, 2, dtype=torch.float64) / config.head_size)
        angles = torch.outer(torch.arange(config.max_sequence_length, dtype=torch.float64), rates).repeat(1, 2)
        self.register_buffer("cosine", angles.cos().float(), persistent=False)
        self.register_buffer("sine", angles.sin().float(), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.cosine[:length], self.sine[:length])
        return self.head(self.norm(x))
