"""The configs of attention and of the encodings of positions. Imports no torch."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated

from ...config import Meta, ModuleConfig
from ...config.bounds import EvenSize, Finite, Positive, Size, at_most
from ...config.roles import Built
from ..initializers.configs import Initializer, KaimingUniform, Normal
from ..roles import LayerFacts
from .scaling_configs import RotaryScaling

if TYPE_CHECKING:
    import torch

    from . import causal_attention, multi_head_attention, positions, rotary_encoding

Probability = Annotated[float, Meta(ge=0, lt=1)]
Buckets = Annotated[int, Meta(ge=2), at_most(2**20, "each is a row of a table")]
"""How many ranges of distances there are."""
LongestDistance = Annotated[int, Meta(ge=2), at_most(2**20, "there is a table of all distances")]
"""From where on all distances are in one range."""


class RotaryEncodingConfig(ModuleConfig["rotary_encoding.RotaryEncoding"], tag="RotaryEncoding"):
    """Positions as rotations of pairs of values (Su et al. 2021).

    Attributes:
        max_sequence_length: positions that the table holds.
        d_model: size of the last dimension, even; in attention that of one head.
        theta: base of the frequencies.
        interleaved: whether neighbours are a pair, (x[2i], x[2i+1]), as in Burn; else (x[i], x[i + d/2]), as in the
            weights of Llama and GPT-NeoX that `transformers` reads.
        rotary_dim: how many values are rotated, the first ones; None for all.
        scaling: of the frequencies, for sequences longer than those of the pretraining.
    """

    facts = LayerFacts(inputs=(1, 3), divides_sequences=True)

    max_sequence_length: Size
    d_model: EvenSize
    theta: Positive = 10000.0
    interleaved: bool = True
    rotary_dim: EvenSize | None = None
    scaling: RotaryScaling | None = None

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.rotated > self.d_model:
            yield "rotary_dim", f"expected at most d_model ({self.d_model}), got {self.rotary_dim}"
        if self.scaling is not None and self.rotated < 4:
            yield "scaling", f"expected 4 or more rotated values, so that frequencies differ; got {self.rotated}"
        if self.scaling is not None and self.theta <= 1:
            yield "theta", f"expected more than 1, so that frequencies fall, got {self.theta}"

    @property
    def rotated(self) -> int:
        return self.rotary_dim or self.d_model

    def init_with_frequency_scaling(
        self, scaling: "Callable[[torch.Tensor], torch.Tensor]", device: "torch.device | str | None" = None
    ) -> "rotary_encoding.RotaryEncoding":
        """Make the layer with other frequencies, as extensions to longer sequences have them.

        Args:
            scaling: gets the frequencies theta^(-2i/d), float64 `[d_model / 2]` on the CPU, and returns others.
            device: of the layer.
        """
        from .rotary_encoding import RotaryEncoding

        return RotaryEncoding(self, device, scaling)


class PositionalEncodingConfig(ModuleConfig["positions.PositionalEncoding"], tag="PositionalEncoding"):
    """Positions as sinusoids that are added (Vaswani et al. 2017).

    Attributes:
        d_model: size of the last dimension, even.
        max_sequence_size: positions that the table holds.
        max_timescale: longest wavelength / 2 pi; at least `max_sequence_size`.
    """

    facts = LayerFacts(divides_sequences=True)

    d_model: EvenSize
    max_sequence_size: Size = 5000
    max_timescale: Size = 10_000

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.max_timescale < self.max_sequence_size:
            least = f"at least max_sequence_size ({self.max_sequence_size})"
            yield "max_timescale", f"expected {least}, got {self.max_timescale}"


class RelativePositionBiasConfig(ModuleConfig["positions.RelativePositionBias"], tag="RelativePositionBias"):
    """Positions as numbers that attention adds to its scores, by head and range of distances (Raffel et al. 2020).

    Attributes:
        n_heads: heads of the attention.
        n_buckets: ranges of distances; even with `bidirectional`.
        max_distance: from here on all distances are in one range.
        bidirectional: whether keys behind a query have ranges of their own, half of all; otherwise they have the bucket
            of the distance 0.
        initializer: of the numbers.
    """

    facts = LayerFacts(inputs=(2, 3))

    n_heads: Size
    n_buckets: Buckets = 32
    max_distance: LongestDistance = 128
    bidirectional: bool = True
    initializer: Initializer = Normal()

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.bidirectional and (self.n_buckets % 2 or self.n_buckets < 4):
            yield "n_buckets", f"expected an even number from 4 on with bidirectional, got {self.n_buckets}"
        one_each = self.n_buckets // (4 if self.bidirectional else 2)
        if self.max_distance <= one_each:
            yield (
                "max_distance",
                f"expected more than {one_each}, up to where each distance has a bucket, got {self.max_distance}",
            )


class _AttentionConfig(ModuleConfig[Built]):
    """The fields that all attentions have.

    Attributes:
        d_model: size of the last dimension.
        n_heads: heads of queries.
        dropout: probability of dropping an attention weight in training.
        min_float: the score of a hidden key.
        quiet_softmax: whether the softmax adds 1 to what it divides by, so that all weights can be near 0.
    """

    d_model: Size


class MultiHeadAttentionConfig(_AttentionConfig["multi_head_attention.MultiHeadAttention"], tag="MultiHeadAttention"):
    """softmax(q k^T / sqrt(d_k)) v in each of several heads (Vaswani et al. 2017).

    Attributes:
        n_heads: heads; must divide d_model.
        initializer: of the four projections.
        key_bias: whether the key projection has a bias.
        value_bias: whether the value projection has a bias.
        query_bias: whether the query projection has a bias.
        output_bias: whether the output projection has a bias.
    """

    facts = LayerFacts(inputs=(1, 5), gives_several=True, divides_sequences=True)

    n_heads: Size
    dropout: Probability = 0.1
    min_float: Finite = -1e4
    quiet_softmax: bool = False
    initializer: Initializer = KaimingUniform()
    key_bias: bool = True
    value_bias: bool = True
    query_bias: bool = True
    output_bias: bool = True

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.d_model % self.n_heads:
            yield "n_heads", f"expected a divisor of d_model ({self.d_model}), got {self.n_heads}"


class CrossAttentionConfig(_AttentionConfig["multi_head_attention.CrossAttention"], tag="CrossAttention"):
    """Attention from one sequence to another, each head of keys and values for a group of heads of queries.

    Attributes:
        d_model: size of the last dimension of the query.
        d_context: size of the last dimension of the context.
        n_heads_kv: heads of keys and values; must divide n_heads.
        d_head: size of a head.
    """

    facts = LayerFacts(inputs=(2, 3))

    d_context: Size
    n_heads: Size
    n_heads_kv: Size
    d_head: Size
    dropout: Probability = 0.1
    min_float: Finite = -1e4
    quiet_softmax: bool = False

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.n_heads % self.n_heads_kv:
            yield "n_heads_kv", f"expected a divisor of n_heads ({self.n_heads}), got {self.n_heads_kv}"


class CausalAttentionConfig(_AttentionConfig, tag="CausalAttention"):
    """Multi-head self-attention in which a position sees itself and what lies before it.

    Attributes:
        n_heads: heads of queries; must divide d_model, unless `d_head` is given.
        initializer: of the query, key and value projections.
        output_initializer: of the output projection.
        n_heads_kv: heads of keys and values, each for a group of queries (Ainslie et al. 2023); must divide n_heads,
            None for n_heads.
        d_head: size of a head; None for d_model / n_heads.
        bias: whether the query, key and value projections have a bias.
        output_bias: whether the output projection has a bias.
        sliding_window: how many positions one sees, itself among them (Beltagy et al. 2020); None for all before it.
        soft_cap: scores s become soft_cap * tanh(s / soft_cap) (Gemma 2, Riviere et al. 2024, section 2).
        rotary: rotates queries and keys; its d_model is the size of a head. None for no rotation, or for that of a
            model that gives it to `init`.
        query_key_norm_epsilon: epsilon of RMS norms over the values of each head's queries and keys, before the
            rotation (Qwen3, Yang et al. 2025, section 2; after Dehghani et al. 2023, section 2); None for no norms.
    """

    facts = LayerFacts(inputs=(1, None), last=("d_model", "d_model"), divides_sequences=True)

    n_heads: Size
    dropout: Probability = 0.0
    initializer: Initializer = KaimingUniform()
    output_initializer: Initializer = KaimingUniform()
    n_heads_kv: Size | None = None
    d_head: Size | None = None
    bias: bool = False
    output_bias: bool = False
    sliding_window: Size | None = None
    soft_cap: Positive | None = None
    rotary: RotaryEncodingConfig | None = None
    query_key_norm_epsilon: Positive | None = None

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.d_head is None and self.d_model % self.n_heads:
            yield "n_heads", f"expected a divisor of d_model ({self.d_model}), got {self.n_heads}"
        elif self.rotary is not None and self.rotary.d_model != self.head_size:
            yield "rotary.d_model", f"expected the size of a head ({self.head_size}), got {self.rotary.d_model}"
        if self.n_heads_kv is not None and self.n_heads % self.n_heads_kv:
            yield "n_heads_kv", f"expected a divisor of n_heads ({self.n_heads}), got {self.n_heads_kv}"

    @property
    def head_size(self) -> int:
        return self.d_head or self.d_model // self.n_heads

    def init(
        self, device: "torch.device | str | None" = None, rotary: "rotary_encoding.RotaryEncoding | None" = None
    ) -> "causal_attention.CausalAttention":
        """Make the layer on `device`; queries and keys are rotated by `rotary`, or by that of the config."""
        from .causal_attention import CausalAttention

        return CausalAttention(self, device, rotary)
