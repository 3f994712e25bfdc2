"""The layers of encoder-decoders in the layout of T5, without biases."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from ...module import Module
from ...nn.attention.attend import HEADS, split_heads
from ...nn.attention.multi_head_attention import MhaCache
from ...nn.configs import DropoutConfig, LinearConfig
from ...nn.initializers.configs import Normal
from ...nn.layer import exports_to_onnx
from ...nn.linear import Linear
from ...nn.norm.configs import RmsNormConfig
from ...nn.norm.norm import RmsNorm
from ...tensor.torch_bridge.torch_function import lift
from .configs import EncoderDecoderConfig

Device = torch.device | str | None
_INNER = dict.fromkeys(("linear_gate", "linear_inner", "linear_value"), "colwise")
_BETWEEN = ("norm_attention", "norm_cross_attention", "norm_feed_forward", "dropout")


def linear(d_input: int, d_output: int, std: float, device: Device) -> Linear:
    """A linear layer without a bias."""
    return LinearConfig(d_input=d_input, d_output=d_output, bias=False, initializer=Normal(std=std)).init(device)


def norm_of(config: EncoderDecoderConfig, device: Device) -> RmsNorm:
    return RmsNormConfig(d_model=config.d_model, epsilon=config.norm_epsilon).init(device)


class UnscaledAttention(Module):
    """softmax(q k^T + bias) v (Raffel et al. 2020, section 2.1).

    The scores are not divided by sqrt(d_head): the query's first weights are that much smaller.
    """

    def __init__(self, config: EncoderDecoderConfig, device: Device = None) -> None:
        super().__init__()
        size, inner = config.d_model, config.n_heads * config.d_head
        self.query = linear(size, inner, (size * config.d_head) ** -0.5, device)
        self.key = linear(size, inner, size**-0.5, device)
        self.value = linear(size, inner, size**-0.5, device)
        self.output = linear(inner, size, inner**-0.5, device)
        self.n_heads, self.d_head = config.n_heads, config.d_head
        self.dropout = config.dropout

    def parallel_plan(self) -> Mapping[str, str]:
        """Each process has some heads."""
        return HEADS

    @lift
    def forward(
        self, x: Tensor, bias: Tensor | None = None, memory: Tensor | None = None, cache: MhaCache | None = None
    ) -> Tensor:
        """`[batch, queries, d_model] -> [batch, queries, d_model]`.

        Args:
            x: where queries are made.
            bias: `[batch or 1, n_heads or 1, queries or 1, keys]`, added to the scores.
            memory: `[batch, keys, d_model]`, where keys and values are made; None for x.
            cache: keys and values of earlier calls; it is changed.
        """
        memory = x if memory is None else memory

        def key() -> Tensor:
            return split_heads(self.key(memory), self.d_head)

        def value() -> Tensor:
            return split_heads(self.value(memory), self.d_head)

        if cache is None:
            keys, values = key(), value()
        elif cache.grows:
            keys, values = cache.key.append(key(), 2), cache.value.append(value(), 2)
        else:
            keys, values = cache.key.once(key), cache.value.once(value)
        query = split_heads(self.query(x), self.d_head)
        dropout = self.dropout if self.training else 0.0
        context = functional.scaled_dot_product_attention(query, keys, values, bias, dropout, scale=1.0)
        context = context.transpose(1, 2)
        if exports_to_onnx():  # the exporter divides attention into steps of another memory layout, which has no views
            context = context.clone(memory_format=torch.contiguous_format)
        return self.output(context.flatten(2))


class FeedForward(Module):
    """linear_outer(dropout(activation(linear_inner(x)))) (Vaswani et al. 2017, eq. 2).

    Gated: linear_outer(dropout(activation(linear_gate(x)) * linear_value(x))) (Shazeer 2020, eq. 6).
    """

    def __init__(self, config: EncoderDecoderConfig, device: Device = None) -> None:
        super().__init__()
        std = config.d_model**-0.5
        inner = linear(config.d_model, config.d_ff, std, device)
        self.gated = config.gated
        if config.gated:
            self.linear_gate = inner
        else:
            self.linear_inner = inner
        self.activation = config.activation.init(device)
        if config.gated:
            self.linear_value = linear(config.d_model, config.d_ff, std, device)
        self.linear_outer = linear(config.d_ff, config.d_model, config.d_ff**-0.5, device)
        self.dropout = DropoutConfig(prob=config.dropout).init()

    def parallel_plan(self) -> Mapping[str, str]:
        """Each process has some inner values."""
        return {"": "divided", **_INNER, "linear_outer": "rowwise"}

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[..., d_model] -> [..., d_model]`."""
        inner = self.activation((self.linear_gate if self.gated else self.linear_inner)(x))
        return self.linear_outer(self.dropout(inner * self.linear_value(x) if self.gated else inner))


class LayerCache:
    """Keys and values of a decoder layer: of the positions so far, and of the memory, computed once."""

    def __init__(self) -> None:
        self.attention = MhaCache.autoregressive()
        self.cross_attention = MhaCache.autoregressive_cross_attention()


class EncoderDecoderLayer(Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x)).

    One of a decoder has x + cross_attention(norm(x)) in between, which reads the memory.
    """

    def __init__(self, config: EncoderDecoderConfig, device: Device = None, *, decodes: bool = False) -> None:
        super().__init__()
        self.norm_attention = norm_of(config, device)
        self.attention = UnscaledAttention(config, device)
        self.decodes = decodes
        if decodes:
            self.norm_cross_attention = norm_of(config, device)
            self.cross_attention = UnscaledAttention(config, device)
        self.norm_feed_forward = norm_of(config, device)
        self.feed_forward = FeedForward(config, device)
        self.dropout = DropoutConfig(prob=config.dropout).init()

    def parallel_plan(self) -> Mapping[str, str]:
        """The plan of a layer: between its parts, processes hold parts of sequences."""
        return dict.fromkeys(_BETWEEN, "sequence")

    @lift
    def forward(
        self,
        x: Tensor,
        bias: Tensor,
        memory: Tensor | None = None,
        memory_bias: Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """`[batch, length, d_model] -> [batch, length, d_model]`, of the positions that `cache` does not have.

        The biases are added to the scores of the positions and of the memory `[batch, keys, d_model]`. The cache is
        changed.
        """
        self_cache, cross = (None, None) if cache is None else (cache.attention, cache.cross_attention)
        x = x + self.dropout(self.attention(self.norm_attention(x), bias, cache=self_cache))
        if self.decodes:
            x = x + self.dropout(self.cross_attention(self.norm_cross_attention(x), memory_bias, memory, cross))
        return x + self.dropout(self.feed_forward(self.norm_feed_forward(x)))
