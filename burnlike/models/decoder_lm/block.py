"""A block of the decoder-only language model."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ...errors import ShapeError
from ...module import Module
from ...nn.attention.attend import KeyValueCache
from ...nn.attention.configs import CausalAttentionConfig
from ...nn.attention.rotary_encoding import RotaryEncoding
from ...nn.configs import DropoutConfig, LinearConfig
from ...nn.initializers.configs import Normal
from ...nn.layer import Layer
from ...nn.norm.configs import LayerNormConfig, RmsNormConfig
from ...nn.torch_counterpart import AnyLibrary
from ...nn.transformer.configs import GatedFeedForwardConfig, MixtureOfExpertsConfig, PositionWiseFeedForwardConfig
from ...nn.transformer.feed_forward import GatedFeedForward, MixtureOfExperts
from ...tensor.torch_bridge.torch_function import lift
from .configs import DecoderLmConfig, ExpertsPart, GatedPart, PlainPart


class DecoderBlock(AnyLibrary, Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x)).

    A gated feed-forward part lies in `gate` and `linear`, any other in `feed_forward`.
    """

    gated = True

    def __init__(
        self, config: DecoderLmConfig, device: torch.device | str | None = None, rotary: RotaryEncoding | None = None
    ) -> None:
        super().__init__()
        # Parts that add to the residual stream start smaller the deeper the model (Radford et al. 2019, section 2.3).
        residual = Normal(std=0.02 / (2 * config.n_layers) ** 0.5)
        self.norm_attention = norm_config(config).init(device)
        self.attention = CausalAttentionConfig(
            d_model=config.d_model,
            n_heads=config.n_heads,
            dropout=config.dropout,
            output_initializer=residual,
            n_heads_kv=config.n_heads_kv,
            d_head=config.d_head,
            bias=config.attention_bias,
            output_bias=config.attention_output_bias,
            sliding_window=config.sliding_window,
            soft_cap=config.attention_soft_cap,
            query_key_norm_epsilon=config.norm_epsilon if config.query_key_norm else None,
        ).init(device, rotary)
        self.norm_feed_forward = norm_config(config).init(device)
        feed_forward = feed_forward_of(config, residual, device)
        if isinstance(feed_forward, GatedFeedForward):
            self.gate, self.linear = feed_forward.gate, feed_forward.linear
        else:
            self.gated = False
            self.feed_forward = feed_forward
        self.dropout = DropoutConfig(prob=config.dropout).init()

    @lift
    def forward(
        self,
        x: Tensor,
        mask_pad: Tensor | None = None,
        positions: Tensor | None = None,
        *,
        cache: KeyValueCache | None = None,
        documents: Tensor | None = None,
        with_balance: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor | None]:
        """`[batch, sequence, d_model] -> [batch, sequence, d_model]`, of the arguments of CausalAttention.

        With `with_balance` also the balance of a mixture of experts, None without one.
        """
        attended = self.attention(self.norm_attention(x), mask_pad, positions, cache=cache, documents=documents)
        x = x + self.dropout(attended)
        y, balance = self._fed_forward(self.norm_feed_forward(x))
        x = x + self.dropout(y)
        return (x, balance) if with_balance else x

    def parallel_plan(self) -> Mapping[str, str]:
        """Each process has some heads and some inner values; what is between is of parts of sequences."""
        plan: dict[str, str] = dict.fromkeys(("norm_attention", "norm_feed_forward", "dropout"), "sequence")
        if self.gated:
            inner = dict.fromkeys(("gate.linear_inner", "gate.linear_outer"), "colwise")
            plan |= {"gate": "divided", **inner, "linear": "rowwise"}
        return plan

    def _fed_forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        if self.gated:
            return self.linear(self.gate(x)), None
        if isinstance(self.feed_forward, MixtureOfExperts):
            return self.feed_forward.forward_balance(x)
        return self.feed_forward(x), None


def norm_config(config: DecoderLmConfig) -> RmsNormConfig | LayerNormConfig:
    kind = RmsNormConfig if config.norm == "RmsNorm" else LayerNormConfig
    return kind(d_model=config.d_model, epsilon=config.norm_epsilon)


def feed_forward_of(config: DecoderLmConfig, residual: Normal, device: torch.device | str | None) -> Layer | Module:
    """The feed-forward part of a block, its last layer initialized by `residual`."""
    part = config.feed_forward
    assert isinstance(part, GatedPart | PlainPart | ExpertsPart)
    sizes: Any = {"d_model": config.d_model, "d_ff": config.d_ff, "activation": part.activation}
    if isinstance(part, GatedPart):
        return GatedFeedForwardConfig(**sizes, bias=part.bias, output_initializer=residual).init(device)
    if isinstance(part, ExpertsPart):
        experts: Any = {name: getattr(part, name) for name in ("n_experts", "n_selected", "normalized")}
        return MixtureOfExpertsConfig(**sizes, **experts, output_initializer=residual).init(device)
    plain = PositionWiseFeedForwardConfig(**sizes, dropout=0.0).init(device)
    plain.linear_outer = LinearConfig(d_input=config.d_ff, d_output=config.d_model, initializer=residual).init(device)
    return plain


class DecoderCache:
    """The keys and values of each block, in tensors of a fixed size, and which positions are padding.

    Attributes:
        layers: of each block.
        padding: bool `[batch, length]`, True where a token is padding.
        only_last: whether the model is to give the logits after the last of the new tokens alone.
    """

    only_last = False

    def __init__(self, layers: Sequence[KeyValueCache], padding: Tensor) -> None:
        self.layers, self.padding = layers, padding

    def append(self, tokens: Tensor, mask_pad: Tensor | None) -> tuple[Tensor, Tensor]:
        """Note which of the next tokens `[batch, new]` are padding.

        Returns:
            their positions, int64 `[batch, new]`, and the padding of all slots.

        Raises:
            ShapeError: another batch, or no room is left; compiled code can't tell the latter.
        """
        batch, length = self.padding.shape
        n_cached = 0 if torch.compiler.is_compiling() else int(self.layers[0].filled)
        if tokens.shape[0] != batch or n_cached + tokens.shape[1] > length:
            room = f"[{batch}, sequence <= {length - n_cached}]"
            raise ShapeError(
                f"DecoderCache: expected tokens {room} where {n_cached} are cached, got {list(tokens.shape)}"
            )
        slots = self.layers[0].next_slots(tokens.shape[1])
        padded = torch.zeros_like(tokens, dtype=torch.bool) if mask_pad is None else mask_pad
        self.padding.index_copy_(1, slots, padded)
        return positions_of(self.padding).index_select(1, slots), self.padding

    def rewind(self, count: int) -> None:
        """Forget the last `count` tokens, whose slots the next ones get."""
        for layer in self.layers:
            layer.filled.sub_(count)

    def reorder(self, rows: Tensor) -> None:
        """Let each row go on with the keys and values of another, int64 `[batch]`, of equal padding."""
        for layer in self.layers:
            for tensor in (layer.key, layer.value):
                tensor.copy_(tensor[rows])  # native steps have these tensors


def documents_of(positions: Tensor) -> Tensor:
    """The document of each position, int64 `[batch, sequence]`: within one, positions rise by 1."""
    begins = positions.diff(prepend=positions[:, :1] - 1) != 1
    return begins.cumsum(-1)


def positions_of(mask_pad: Tensor) -> Tensor:
    """The position of each token, int64 `[batch, sequence]`, where padding does not count."""
    return ((~mask_pad).cumsum(-1) - 1).clamp(min=0)
