"""Attention from one sequence to another, with fewer heads of keys and values."""

import torch
from torch import Tensor

from ...module import Module
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..dropout.configs import DropoutConfig
from ..initializers.configs import KaimingUniform
from ..layer import expect_shape
from ..linear.configs import LinearConfig
from .attend import Rules, attend, split_heads
from .caches import TensorCache
from .configs import CrossAttentionConfig
from .masks import hidden_keys


class CrossAttentionCache:
    """Keys and values `[batch, n_heads_kv, context, d_head]` of a context that stays the same."""

    def __init__(self) -> None:
        self.k, self.v = TensorCache(), TensorCache()


class CrossAttention(KeepsType, Module):
    """softmax(q k^T / sqrt(d_head)) v, each head of keys and values for a group of queries (Ainslie et al. 2023).

    Torch: `nn.MultiheadAttention(kdim=, vdim=)`.
    Differs: fewer heads for keys and values (`n_heads_kv`), heads of any size (`d_head`); batch first; masks fill with
    `min_float`, not -inf.

    Attributes:
        query: Linear `d_model -> n_heads * d_head`.
        key, value: Linear `d_context -> n_heads_kv * d_head`.
        output: Linear `n_heads * d_head -> d_model`.
    """

    def __init__(self, config: CrossAttentionConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        heads, heads_kv = config.n_heads * config.d_head, config.n_heads_kv * config.d_head
        initializer = KaimingUniform(gain=config.d_head**-0.5)

        def linear(d_input: int, d_output: int) -> LinearConfig:
            return LinearConfig(d_input=d_input, d_output=d_output, initializer=initializer)

        self.query = linear(config.d_model, heads).init(device)
        self.key = linear(config.d_context, heads_kv).init(device)
        self.value = linear(config.d_context, heads_kv).init(device)
        self.output = linear(heads, config.d_model).init(device)
        self.dropout = DropoutConfig(prob=config.dropout).init()
        self.n_heads = config.n_heads
        self.n_heads_kv = config.n_heads_kv
        self.d_head = config.d_head
        self.scale = config.d_head**-0.5
        self.min_float = config.min_float
        self.quiet_softmax = config.quiet_softmax

    @lift
    def forward(self, query: Tensor, context: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attend from each position of `query` to those of `context`.

        `[batch, queries, d_model], [batch, keys, d_context] -> [batch, queries, d_model]`; the mask is bool
        `[batch, keys]`, True where a position of the context is hidden: ShapeError or DTypeError if it is not.
        """
        return self._attend(query, context, mask, CrossAttentionCache())

    @lift
    def forward_cache(
        self, query: Tensor, context: Tensor, mask: Tensor | None = None, *, cache: CrossAttentionCache
    ) -> Tensor:
        """As `forward`, with the keys and values of the first call's context.

        What is in later contexts does not matter; `cache` is of the calls before, and the first one changes it.
        """
        return self._attend(query, context, mask, cache)

    def _attend(self, query: Tensor, context: Tensor, mask: Tensor | None, cache: CrossAttentionCache) -> Tensor:
        expect_shape(self, query, "batch", "queries", self.query.weight.shape[0], name="query")
        expect_shape(self, context, query.shape[0], "keys", self.key.weight.shape[0], name="context")
        keys = cache.k.once(lambda: split_heads(self.key(context), self.n_heads_kv))
        values = cache.v.once(lambda: split_heads(self.value(context), self.n_heads_kv))
        hidden = hidden_keys(self, mask, None, query.shape[0], query.shape[1], keys.shape[2])
        rules = Rules(self.min_float, self.quiet_softmax, self.dropout)
        queries = split_heads(self.query(query), self.n_heads)
        _, attended = attend(queries, keys, values, hidden, rules, need_weights=False)
        return self.output(attended)
