"""Causal self-attention of decoders: rotary positions, grouped queries, a sliding window, cached keys and values."""

from collections.abc import Mapping

import torch
from torch import Tensor

from ...errors import ConfigError, ShapeError
from ...module import Module
from ...module.torch_objects.wrappers import local
from ...ops._arguments import for_products
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..configs import LinearConfig
from ..divided_sequence import divided
from ..layer import FromConfig, expect_shape
from ..linear import unmerged_weight
from ..norm.configs import RmsNormConfig
from .attend import HEADS, KeyValueCache, attend_parts, attend_visible, split_heads
from .configs import CausalAttentionConfig
from .masks import causally_visible, hidden_keys
from .rotary_encoding import RotaryEncoding
from .shared_prompts import shared_prompts


class CausalAttention(KeepsType, FromConfig, Module):
    """softmax(q k^T / sqrt(d_head)) v over the past (Vaswani et al. 2017, eq. 1).

    Torch: `functional.scaled_dot_product_attention(..., is_causal=True)` between two `nn.Linear`.

    Attributes:
        query: Linear `d_model -> n_heads * d_head`.
        key, value: Linear `d_model -> n_heads_kv * d_head`.
        output: Linear `n_heads * d_head -> d_model`.
        rotary: what rotates queries and keys, or None.
        norm_query, norm_key: RmsNorm `d_head` before the rotation, where the config has one.
    """

    sliding_window: int | None = None
    soft_cap: float | None = None
    query_key_norm: bool = False

    def __init__(
        self,
        config: CausalAttentionConfig,
        device: torch.device | str | None = None,
        rotary: RotaryEncoding | None = None,
    ) -> None:
        super().__init__()
        d_model, d_head = config.d_model, config.head_size
        heads, heads_kv = config.n_heads * d_head, (config.n_heads_kv or config.n_heads) * d_head
        linear = LinearConfig(d_input=d_model, d_output=heads, bias=config.bias, initializer=config.initializer)
        self.query = linear.init(device)
        self.key = linear.replace(d_output=heads_kv).init(device)
        self.value = linear.replace(d_output=heads_kv).init(device)
        self.output = LinearConfig(
            d_input=heads, d_output=d_model, bias=config.output_bias, initializer=config.output_initializer
        ).init(device)
        self.rotary = config.rotary.init(device) if rotary is None and config.rotary is not None else rotary
        self.n_heads = config.n_heads
        self.dropout = config.dropout
        if config.sliding_window is not None:
            self.sliding_window = config.sliding_window
        if config.soft_cap is not None:
            self.soft_cap = config.soft_cap
        if config.query_key_norm_epsilon is not None:
            self.query_key_norm = True
            norm = RmsNormConfig(d_model=d_head, epsilon=config.query_key_norm_epsilon)
            self.norm_query, self.norm_key = norm.init(device), norm.init(device)

    @property
    def d_head(self) -> int:
        return unmerged_weight(self.query).shape[1] // self.n_heads

    @property
    def n_heads_kv(self) -> int:
        return unmerged_weight(self.key).shape[1] // self.d_head

    @lift
    def forward(
        self,
        x: Tensor,
        mask_pad: Tensor | None = None,
        positions: Tensor | None = None,
        *,
        cache: KeyValueCache | None = None,
        documents: Tensor | None = None,
    ) -> Tensor:
        """Attend from each position to itself and what lies before it: `[batch, sequence, d_model]`.

        Args:
            x: `[batch, sequence, d_model]`; with a cache the new positions only.
            mask_pad: bool `[batch, keys]`, True where a key is hidden; keys are the sequence, or the cache's length.
            positions: int64 `[batch, sequence]`, for the rotation; None where they are the places in the sequence.
            cache: of the calls before; the new keys and values are written into it.
            documents: int64 `[batch, sequence]`, without a cache: the document that each position is of, which is all
                that it sees.

        Raises ShapeError if x or a mask has another shape, DTypeError if the mask is not bool.
        """
        self._check(x, mask_pad, positions, cache)
        slots = None if cache is None else cache.next_slots(x.shape[1])
        # Cast for autocast once, not by each of the three layers.
        x = for_products(x)
        query, key = self._heads(self.query(x)), self._heads(self.key(x))
        if self.query_key_norm:
            query, key = self.norm_query(query), self.norm_key(key)
        sequence = divided(self)
        if positions is None:
            positions = slots if sequence is None else sequence.positions
        if self.rotary is not None:
            if sequence is not None and self.rotary.by_length:
                raise ConfigError("distributed.context: frequencies by the length of a sequence need whole ones")
            query, key = self.rotary.rotate_both(query, key, 0, positions)
        value = self._heads(self.value(x))
        if cache is not None and slots is not None:
            cache.write(slots, key, value)
            # They differ in element type under autocast.
            key, value = cache.key.to(query.dtype), cache.value.to(query.dtype)
        dropout = self.dropout if self.training else 0.0
        options = {"sliding_window": self.sliding_window, "soft_cap": self.soft_cap, "dropout": dropout}
        if sequence is not None:
            return self.output(attend_parts(query, key, value, sequence, **options))
        if (shared := shared_prompts()) is not None:
            return self.output(shared.attend(query, key, value, **options))
        visible = self._visible(slots, x.shape[1], key.shape[2], mask_pad, x.device, documents)
        return self.output(attend_visible(query, key, value, visible, soft_cap=self.soft_cap, dropout=dropout))

    def new_cache(self, batch: int, length: int) -> KeyValueCache:
        """An empty cache for `length` positions, on the device and in the element type of the weights."""
        weight = unmerged_weight(self.key)
        shape = (batch, self._own_heads_kv, length, self.d_head)
        key, value = (torch.zeros(shape, dtype=weight.dtype, device=weight.device) for _ in range(2))
        return KeyValueCache(key, value)

    def parallel_plan(self) -> Mapping[str, str]:
        """Each process has some heads."""
        return {**HEADS, "norm_query": "summed", "norm_key": "summed"}

    @property
    def _own_heads_kv(self) -> int:
        """The number of heads of keys and values of this process: some of them under tensor parallelism."""
        return local(unmerged_weight(self.key)).shape[1] // self.d_head

    def _heads(self, x: Tensor) -> Tensor:
        """`[batch, sequence, heads * d_head] -> [batch, heads, sequence, d_head]`, for as many heads as there are."""
        if x.shape[-1] % self.d_head:
            heads = f"{self.n_heads} heads and {self.n_heads_kv} of keys and values"
            raise ShapeError(f"CausalAttention: expected so many processes that each has whole heads, of {heads}")
        return split_heads(x, self.d_head)

    def _visible(
        self,
        slots: Tensor | None,
        queries: int,
        keys: int,
        mask_pad: Tensor | None,
        device: torch.device,
        documents: Tensor | None,
    ) -> Tensor | None:
        """The mask of visible keys, or None where queries see all that is before them."""
        window = self.sliding_window
        if slots is None and mask_pad is None and documents is None and (window is None or window >= keys):
            return None
        places = torch.arange(queries, device=device) if slots is None else slots
        return causally_visible(places, torch.arange(keys, device=device), mask_pad, window, documents)

    def _check(self, x: Tensor, mask_pad: Tensor | None, positions: Tensor | None, cache: KeyValueCache | None) -> None:
        expect_shape(self, x, "batch", "sequence", unmerged_weight(self.query).shape[0], name="x")
        batch, length = x.shape[:2]
        hidden_keys(self, mask_pad, None, batch, length, length if cache is None else cache.length)
        if positions is not None:
            expect_shape(self, positions, batch, length, name="positions")
        if cache is not None:
            expect_shape(self, cache.key, batch, self._own_heads_kv, "length", self.d_head, name="cache.key")
