"""The config of the decoder-only language model and of its parts. Imports no torch."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ...config import Config, ModuleConfig
from ...config.bounds import EvenSize, Layers, NotNegative, Positive, Size
from ...nn.activation.configs import GeluConfig, SiLUConfig
from ...nn.attention.configs import Probability
from ...nn.attention.scaling_configs import RotaryScaling
from ...nn.roles import ActivationConfig
from ..by_path.configs import NewTokens

if TYPE_CHECKING:
    from . import model


class DecoderPositions(Config):
    """Role of how a decoder knows positions."""


class RotaryPositions(DecoderPositions, tag="Rotary"):
    """Queries and keys are rotated (Su et al. 2021), by the model's `theta`.

    Attributes:
        interleaved: whether neighbours are a pair, as in Burn; else the halves of a head, as in the weights of Llama
            that `transformers` reads.
        rotary_dim: how many values of a head are rotated, the first ones; None for all.
        scaling: of the frequencies, for sequences longer than those of the pretraining.
    """

    interleaved: bool = True
    rotary_dim: EvenSize | None = None
    scaling: RotaryScaling | None = None


class LearnedPositions(DecoderPositions, tag="Learned"):
    """A learned vector for each position is added to that of the token, with dropout (Radford et al. 2019)."""


class DecoderFeedForward(Config):
    """Role of the feed-forward part of a decoder's block."""


class GatedPart(DecoderFeedForward, tag="Gated"):
    """linear(activation(x w) * (x v)) (Shazeer 2020, eq. 6): SwiGLU by default, GEGLU with GELU."""

    activation: ActivationConfig = SiLUConfig()
    bias: bool = False


class PlainPart(DecoderFeedForward, tag="Plain"):
    """Two linear layers with biases, and an activation between them (Vaswani et al. 2017, section 3.3)."""

    activation: ActivationConfig = GeluConfig()


class ExpertsPart(DecoderFeedForward, tag="Experts"):
    """A mixture of gated parts, of which each position takes a few (Jiang et al. 2024).

    Attributes:
        n_selected: how many a position takes.
        normalized: whether the weights of those that are taken are divided by their sum, as in Mixtral; not in Switch,
            where one is taken: its weight would be 1, from which the router learns nothing.
        balance: factor of what a training adds to its loss so that all experts are used (alpha of Fedus et al. 2021,
            eq. 4).
    """

    n_experts: Layers
    n_selected: Size = 2
    normalized: bool = True
    activation: ActivationConfig = SiLUConfig()
    balance: NotNegative = 0.01

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.n_selected > self.n_experts:
            yield "n_selected", f"expected at most n_experts ({self.n_experts}), got {self.n_selected}"


class DecoderLmConfig(ModuleConfig["model.DecoderLm"], tag="DecoderLm"):
    """A decoder-only transformer, by default: RMS norm before each part, rotary positions, SwiGLU, tied output head.

    Attributes:
        max_sequence_length: longest sequence it can read.
        d_model: size of a position's vector.
        n_heads: attention heads of a block; must divide d_model into even parts, unless `d_head` is given.
        d_ff: inner size of the feed-forward part, or of each expert.
        dropout: probability of dropping a value of each part's output, and an attention weight, in training.
        theta: base of the rotary frequencies.
        n_heads_kv: heads of keys and values, each for a group of heads of queries; must divide n_heads, None for
            n_heads.
        d_head: size of a head; None for d_model / n_heads.
        sliding_window: how many positions one sees in a block, itself among them; None for all before it.
        attention_soft_cap: attention scores s become cap * tanh(s / cap); None leaves them.
        logit_soft_cap: the same for logits.
        attention_bias: whether the query, key and value projections have a bias.
        attention_output_bias: whether the output projection of the attention has a bias.
        tied: whether the output head is the transposed embedding.
        head: whether it has an output head. Without one, results are the normalized vectors of the last block.
        query_key_norm: whether each head's queries and keys have an RMS norm of their own before the rotation (Qwen3,
            Yang et al. 2025, section 2).
        new_tokens: as of `Pretrained`: tokens behind the `vocab_size` ones of the weights that the model begins with.
    """

    vocab_size: Size
    max_sequence_length: Size
    d_model: Size
    n_layers: Layers
    n_heads: Size
    d_ff: Size
    dropout: Probability = 0.0
    theta: Positive = 10000.0
    norm_epsilon: Positive = 1e-5
    n_heads_kv: Size | None = None
    d_head: Size | None = None
    sliding_window: Size | None = None
    attention_soft_cap: Positive | None = None
    logit_soft_cap: Positive | None = None
    attention_bias: bool = False
    attention_output_bias: bool = False
    positions: DecoderPositions = RotaryPositions()
    feed_forward: DecoderFeedForward = GatedPart()
    norm: Literal["RmsNorm", "LayerNorm"] = "RmsNorm"
    tied: bool = True
    head: bool = True
    query_key_norm: bool = False
    new_tokens: NewTokens = ()

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.n_heads_kv is not None and self.n_heads % self.n_heads_kv:
            yield "n_heads_kv", f"expected a divisor of n_heads ({self.n_heads}), got {self.n_heads_kv}"
        if self.d_head is None and self.d_model % self.n_heads:
            yield "n_heads", f"expected a divisor of d_model ({self.d_model}), got {self.n_heads}"
        elif isinstance(self.positions, RotaryPositions):
            yield from self._validate_rotary(self.positions)

    def _validate_rotary(self, positions: RotaryPositions) -> Iterable[tuple[str, str]]:
        if self.head_size % 2 and self.d_head is None:
            yield "n_heads", f"expected heads of even size: d_model ({self.d_model}) / {self.n_heads} is not even"
        elif self.head_size % 2:
            yield "d_head", f"expected an even number for rotary positions, got {self.d_head}"
        rotated = positions.rotary_dim or self.head_size
        if rotated > self.head_size:
            yield "positions.rotary_dim", f"expected at most a head's size ({self.head_size}), got {rotated}"
        if positions.scaling is not None and rotated < 4:
            yield "positions.scaling", f"expected 4 or more rotated values, so that frequencies differ; got {rotated}"
        if positions.scaling is not None and self.theta <= 1:
            yield "theta", f"expected more than 1 for a scaling, so that frequencies fall, got {self.theta}"

    @property
    def head_size(self) -> int:
        """The size of a head."""
        return self.d_head or self.d_model // self.n_heads

    @property
    def count_of_tokens(self) -> int:
        """The tokens of the weights that it begins with."""
        return self.vocab_size

    @property
    def with_new_tokens(self) -> "DecoderLmConfig":
        """The config of the model with its new tokens, whose numbers are known."""
        if not self.new_tokens:
            return self
        numbers = [token for token in self.new_tokens if isinstance(token, int)]
        return self.replace(vocab_size=max([self.vocab_size, *(number + 1 for number in numbers)]), new_tokens=())

    def init_from(self, source: Any, device: Any = None, **options: Any) -> Any:
        if not self.new_tokens:
            return super().init_from(source, device, **options)
        from .model import grow

        return grow(self.replace(new_tokens=()).init_from(source, device, **options), self.new_tokens)

    def without_weights(self, run: Path) -> ModuleConfig:
        return self.with_new_tokens

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        return {"tokens": ("int64", (1, self.max_sequence_length))}
