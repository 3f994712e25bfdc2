"""T5 (Raffel et al. 2020, section 2.1) in torch.nn, with plain feed-forward parts."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from burnlike.models import EncoderDecoderConfig

NAMES: Mapping[str, str] = {
    r"position_bias\.weight": "positions.weight",
    r"\.gamma": ".weight",
    r"feed_forward\.linear_inner": "inner",
    r"feed_forward\.linear_outer": "outer",
}
"""Patterns in the paths of ours, and what is here in place of it."""


def buckets(config: EncoderDecoderConfig, queries: int, keys: int, both_ways: bool) -> Tensor:
    """The bucket of each key's distance from each query."""
    distance = torch.arange(keys) - torch.arange(queries)[:, None]
    count, first = config.n_buckets, torch.zeros_like(distance)
    if both_ways:
        count //= 2
        first, distance = (distance > 0) * count, distance.abs()
    else:
        distance = (-distance).clamp(min=0)
    near = count // 2
    far = near + ((distance / near).log() / math.log(config.max_distance / near) * (count - near)).clamp(min=0).long()
    return first + torch.where(distance < near, distance, far.clamp(max=count - 1))


class Attention(nn.Module):
    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__()
        inner = config.n_heads * config.d_head
        self.heads = config.n_heads
        self.query = nn.Linear(config.d_model, inner, bias=False)
        self.key = nn.Linear(config.d_model, inner, bias=False)
        self.value = nn.Linear(config.d_model, inner, bias=False)
        self.output = nn.Linear(inner, config.d_model, bias=False)

    def forward(self, x: Tensor, memory: Tensor, bias: Tensor | None) -> Tensor:
        parts = self.query(x), self.key(memory), self.value(memory)
        query, key, value = (it.unflatten(-1, (self.heads, -1)).transpose(1, 2) for it in parts)
        context = functional.scaled_dot_product_attention(query, key, value, bias, scale=1.0)
        return self.output(context.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, config: EncoderDecoderConfig, cross: bool) -> None:
        super().__init__()
        size, epsilon = config.d_model, config.norm_epsilon
        self.norm_attention, self.attention = nn.RMSNorm(size, epsilon), Attention(config)
        self.cross = cross
        if cross:
            self.norm_cross_attention, self.cross_attention = nn.RMSNorm(size, epsilon), Attention(config)
        self.norm_feed_forward = nn.RMSNorm(size, epsilon)
        self.inner = nn.Linear(size, config.d_ff, bias=False)
        self.outer = nn.Linear(config.d_ff, size, bias=False)

    def forward(self, x: Tensor, memory: Tensor | None, bias: Tensor) -> Tensor:
        y = self.norm_attention(x)
        x = x + self.attention(y, y, bias)
        if memory is not None:
            x = x + self.cross_attention(self.norm_cross_attention(x), memory, None)
        return x + self.outer(self.inner(self.norm_feed_forward(x)).relu())


class Stack(nn.Module):
    def __init__(self, config: EncoderDecoderConfig, n_layers: int, cross: bool) -> None:
        super().__init__()
        self.config, self.cross = config, cross
        self.positions = nn.Embedding(config.n_buckets, config.n_heads)
        self.layers = nn.ModuleList(Layer(config, cross) for _ in range(n_layers))
        self.norm = nn.RMSNorm(config.d_model, config.norm_epsilon)

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        length = x.shape[1]
        bias = self.positions(buckets(self.config, length, length, not self.cross)).permute(2, 0, 1)[None]
        if self.cross:
            bias = bias.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), -torch.inf)
        for layer in self.layers:
            x = layer(x, memory, bias)
        return self.norm(x)


class T5(nn.Module):
    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.encoder = Stack(config, config.n_layers, cross=False)
        self.decoder = Stack(config, config.n_decoder_layers or config.n_layers, cross=True)

    def forward(self, tokens: Tensor, decoder_tokens: Tensor) -> Tensor:
        memory = self.encoder(self.embedding(tokens))
        x: Any = self.decoder(self.embedding(decoder_tokens), memory)
        return functional.linear(x * x.shape[-1] ** -0.5, self.embedding.weight)
