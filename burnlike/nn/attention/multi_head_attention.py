"""Multi-head attention, and attention from one sequence to another with fewer heads of keys and values."""

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self

import torch
from torch import Tensor, nn

from ...errors import ConfigError
from ...module import Content, Module
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType, T
from ..configs import DropoutConfig, LinearConfig
from ..divided_sequence import DividedSequence, divided
from ..initializers.configs import KaimingUniform
from ..layer import FromConfig, Layer, expect_shape, shape_error
from ..tensor_source import TensorSource
from ..torch_counterpart import Counterpart, refuse
from .attend import HEADS, TensorCache, attend, split_heads, whole_keys
from .configs import CrossAttentionConfig, MultiHeadAttentionConfig
from .masks import hidden_keys

Masks = tuple[Tensor | None, Tensor | None]
"""Of padding and of attention, True where they hide."""


class MhaOutput(NamedTuple, Generic[T]):
    """The result of an attention layer.

    Attributes:
        weights: `[batch, n_heads, queries, keys]`, or None if they were not asked for.
        context: `[batch, queries, d_model]`.
    """

    weights: T | None
    context: T


class MhaCache:
    """Keys, values and results of earlier positions, for generation.

    Attributes:
        key, value: `[batch, n_heads, length, d_k]`.
        output: `[batch, length, d_model]`.
        grows: whether keys and values grow with the queries; otherwise they are computed once.
    """

    def __init__(self, *, grows: bool) -> None:
        self.key, self.value, self.output = TensorCache(), TensorCache(), TensorCache()
        self.grows = grows

    @classmethod
    def autoregressive(cls) -> Self:
        """For self-attention."""
        return cls(grows=True)

    @classmethod
    def autoregressive_cross_attention(cls) -> Self:
        """For attention to keys and values that stay the same."""
        return cls(grows=False)


class MultiHeadAttention(Layer):
    """softmax(q k^T / sqrt(d_k)) v in each head, then the output projection (Vaswani et al. 2017, section 3.2.2).

    Torch: `nn.MultiheadAttention`.
    Differs: four `Linear` instead of one stacked weight; batch first; masks fill with `min_float`, not -inf; returns
    the weights of each head.

    Attributes:
        query: Linear `d_model -> d_model`, and so are `key`, `value` and `output`.
    """

    if TYPE_CHECKING:

        def __call__(self, query: T, *others: Any, **named: Any) -> MhaOutput[T]: ...

    def __init__(self, config: MultiHeadAttentionConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        size = config.d_model
        linear = LinearConfig(d_input=size, d_output=size, initializer=config.initializer)
        self.query = linear.replace(bias=config.query_bias).init(device)
        self.key = linear.replace(bias=config.key_bias).init(device)
        self.value = linear.replace(bias=config.value_bias).init(device)
        self.output = linear.replace(bias=config.output_bias).init(device)
        self.dropout = DropoutConfig(prob=config.dropout).init()
        self.activation = None  # Burn has a Gelu here that computes nothing; its records have the place
        self.d_model = size
        self.n_heads = config.n_heads
        self.d_k = size // config.n_heads
        self.min_float = config.min_float
        self.quiet_softmax = config.quiet_softmax

    @lift
    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask_pad: Tensor | None = None,
        mask_attn: Tensor | None = None,
        *,
        need_weights: bool = True,
    ) -> MhaOutput:
        """Attend from each position of `query` to those of `key`.

        A query from which every key is hidden gets the mean of all values (zeros with the quiet softmax).

        Args:
            query: `[batch, queries, d_model]`.
            key: `[batch, keys, d_model]`; None for `query`.
            value: `[batch, keys, d_model]`; None for `key`.
            mask_pad: bool `[batch, keys]`, True where a key is hidden.
            mask_attn: bool `[batch, queries, keys]`, True where a key is hidden from a query.
            need_weights: whether the weights are returned. Without them torch's fused attention is used, which is
                faster and takes no memory for them.

        Raises ShapeError if an input or a mask has another shape, DTypeError if a mask is not bool.
        """
        key, value = self._checked(query, key, value)
        masks, cache = (mask_pad, mask_attn), MhaCache(grows=False)
        weights, context = self._attend(query, key, value, masks, cache, need_weights)
        return MhaOutput(weights, self.output(context))

    @lift
    def forward_cache(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask_pad: Tensor | None = None,
        mask_attn: Tensor | None = None,
        *,
        cache: MhaCache,
        need_weights: bool = True,
    ) -> MhaOutput:
        """As `forward`, where only positions are computed that `cache` does not have: the last ones.

        Several new positions see each other, unless `mask_attn` hides them. The inputs, masks and weights are of all
        positions so far; `cache` is of the calls before, and is changed. Raises ShapeError if no position is new.
        """
        key, value = self._checked(query, key, value)
        cached, length = cache.output.length(1), query.shape[1]
        if length <= cached:
            raise shape_error(self, f"more than the {cached} positions of the cache", length, name="query")
        if cache.grows:
            key, value = key[:, cached:], value[:, cached:]
        # The weights that are returned are those of all positions, which the cache does not keep.
        first = 0 if need_weights else cached
        if mask_attn is not None:
            mask_attn = mask_attn[:, first:]
        weights, context = self._attend(query[:, first:], key, value, (mask_pad, mask_attn), cache, need_weights)
        return MhaOutput(weights, cache.output.append(self.output(context[:, cached - first :]), 1))

    def forward_new(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask_pad: Tensor | None,
        mask_attn: Tensor | None,
        *,
        cache: MhaCache,
    ) -> Tensor:
        """The context `[batch, new, d_model]` of new queries of torch; `cache` is changed, and keeps no results.

        Keys and values are `[batch, new, d_model]`, or all `[batch, keys, d_model]` for a cache that does not grow. The
        masks are bool `[batch, keys]`, of all keys, and `[batch, new, keys]`.
        """
        return self.output(self._attend(query, key, value, (mask_pad, mask_attn), cache, need_weights=False)[1])

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, masks: Masks, cache: MhaCache, need_weights: bool
    ) -> tuple[Tensor | None, Tensor]:
        """Weights and context of the queries, over the cached and the new keys."""
        if cache.grows:
            keys = cache.key.append(split_heads(self.key(key), self.d_k), 2)
            values = cache.value.append(split_heads(self.value(value), self.d_k), 2)
        else:
            keys = cache.key.once(lambda: split_heads(self.key(key), self.d_k))
            values = cache.value.once(lambda: split_heads(self.value(value), self.d_k))
        if (sequence := divided(self)) is not None:
            self._expect_own(query is key, masks, sequence)
            keys, values = whole_keys(keys, values, sequence)
            masks = sequence.hidden, None
        hidden = hidden_keys(self, *masks, query.shape[0], query.shape[1], keys.shape[2])
        queries = split_heads(self.query(query), self.d_k)
        return attend(queries, keys, values, hidden, self, need_weights=need_weights)

    def _expect_own(self, is_own: bool, masks: Masks, sequence: DividedSequence) -> None:
        """Refuse what parts of sequences can't be computed for."""
        problem = "" if is_own else "attends to another sequence"
        if masks[1] is not None:
            problem = "has a mask_attn, of which each process would need the rows of its positions"
        if problem:
            raise ConfigError(f"distributed.context: {type(self).__name__} {problem}; leave out `context`")

    def _checked(self, query: Tensor, key: Tensor | None, value: Tensor | None) -> tuple[Tensor, Tensor]:
        expect_shape(self, query, "batch", "queries", self.d_model, name="query")
        if key is not None:
            expect_shape(self, key, query.shape[0], "keys", self.d_model, name="key")
        key = query if key is None else key
        if value is not None:
            expect_shape(self, value, query.shape[0], key.shape[1], self.d_model, name="value")
        return key, key if value is None else value

    def parallel_plan(self) -> Mapping[str, str]:
        """Each process has some heads."""
        return HEADS

    def custom_content(self, content: Content) -> Content:
        content = content.add("d_model", self.d_model).add("n_heads", self.n_heads).add("d_k", self.d_k)
        content = content.add("dropout", self.dropout.prob).add("min_float", self.min_float)
        return content.add("quiet_softmax", self.quiet_softmax)


class CrossAttentionCache:
    """Keys and values `[batch, n_heads_kv, context, d_head]` of a context that stays the same."""

    def __init__(self) -> None:
        self.k, self.v = TensorCache(), TensorCache()


class CrossAttention(KeepsType, FromConfig, Module):
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
        linear = partial(LinearConfig, initializer=KaimingUniform(gain=config.d_head**-0.5))
        self.query = linear(d_input=config.d_model, d_output=heads).init(device)
        self.key = linear(d_input=config.d_context, d_output=heads_kv).init(device)
        self.value = linear(d_input=config.d_context, d_output=heads_kv).init(device)
        self.output = linear(d_input=heads, d_output=config.d_model).init(device)
        self.dropout = DropoutConfig(prob=config.dropout).init()
        self.n_heads = config.n_heads
        self.n_heads_kv = config.n_heads_kv
        self.d_head = config.d_head
        self.scale = 1 / math.sqrt(config.d_head)
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

    def parallel_plan(self) -> Mapping[str, str]:
        """Each process has some heads."""
        return HEADS

    def _attend(self, query: Tensor, context: Tensor, mask: Tensor | None, cache: CrossAttentionCache) -> Tensor:
        expect_shape(self, query, "batch", "queries", self.query.weight.shape[0], name="query")
        expect_shape(self, context, query.shape[0], "keys", self.key.weight.shape[0], name="context")
        keys = cache.k.once(lambda: split_heads(self.key(context), self.d_head))
        values = cache.v.once(lambda: split_heads(self.value(context), self.d_head))
        hidden = hidden_keys(self, mask, None, query.shape[0], query.shape[1], keys.shape[2])
        queries = split_heads(self.query(query), self.d_head)
        return self.output(attend(queries, keys, values, hidden, self, need_weights=False)[1])


def attention_config(layer: nn.MultiheadAttention) -> MultiHeadAttentionConfig:
    """The config of torch's layer. Raises NoCounterpartError for an option that only torch has."""
    if not layer.batch_first:
        raise refuse(layer, "batch_first=False has no counterpart: burnlike's is [batch, length, d_model]")
    if layer.in_proj_weight is None:
        raise refuse(layer, "kdim and vdim other than embed_dim have no counterpart")
    if layer.bias_k is not None:
        raise refuse(layer, "add_bias_kv=True has no counterpart")
    bias = layer.in_proj_bias is not None
    names = ("query_bias", "key_bias", "value_bias", "output_bias")
    return MultiHeadAttentionConfig(
        d_model=layer.embed_dim,
        n_heads=layer.num_heads,
        dropout=layer.dropout,
        # A key of zeros has the score 0: e^0 = 1 is what the quiet softmax adds.
        quiet_softmax=layer.add_zero_attn,
        **dict.fromkeys(names, bias),
    )


def _to_torch(layer: MultiHeadAttention, device: torch.device) -> nn.MultiheadAttention:
    biases = {it.bias is not None for it in (layer.query, layer.key, layer.value, layer.output)}
    if len(biases) > 1:
        raise refuse(layer, "biases for some of the projections only have no counterpart")
    return nn.MultiheadAttention(
        layer.d_model,
        layer.n_heads,
        dropout=layer.dropout.prob,
        bias=biases.pop(),
        add_zero_attn=layer.quiet_softmax,
        batch_first=True,
        device=device,
    )


def attention_tensors(ours: str = "", theirs: str = "") -> dict[str, TensorSource]:
    """The places in torch's attention at `theirs` of the tensors of ours at `ours`; both end with a dot."""
    sources: dict[str, TensorSource] = {}
    for index, name in enumerate(("query", "key", "value")):
        sources[f"{ours}{name}.weight"] = TensorSource(f"{theirs}in_proj_weight", (index, 3), transposed=True)
        sources[f"{ours}{name}.bias"] = TensorSource(f"{theirs}in_proj_bias", (index, 3))
    sources[f"{ours}output.weight"] = TensorSource(f"{theirs}out_proj.weight", transposed=True)
    sources[f"{ours}output.bias"] = TensorSource(f"{theirs}out_proj.bias")
    return sources


COUNTERPARTS = [
    Counterpart(
        "MultiHeadAttention", nn.MultiheadAttention, attention_config, _to_torch, attention_tensors(), call="other"
    )
]
