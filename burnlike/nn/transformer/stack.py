"""What stacks of encoder layers and of decoder layers share."""

import torch
from torch import Tensor

from ...module import Content
from ..attention.caches import TensorCache
from ..attention.configs import MultiHeadAttentionConfig
from ..attention.multi_head_attention import MultiHeadAttention
from ..layer import Layer, shape_error
from ..norm.configs import LayerNormConfig
from ..norm.layer_norm import LayerNorm
from .configs import PositionWiseFeedForwardConfig, TransformerDecoderConfig, TransformerEncoderConfig
from .feed_forward import PositionWiseFeedForward

StackConfig = TransformerEncoderConfig | TransformerDecoderConfig


def attention_of(config: StackConfig, device: torch.device | str | None) -> MultiHeadAttention:
    return MultiHeadAttentionConfig(
        d_model=config.d_model,
        n_heads=config.n_heads,
        dropout=config.dropout,
        quiet_softmax=config.quiet_softmax,
        initializer=config.initializer,
    ).init(device)


def feed_forward_of(config: StackConfig, device: torch.device | str | None) -> PositionWiseFeedForward:
    return PositionWiseFeedForwardConfig(
        d_model=config.d_model,
        d_ff=config.d_ff,
        dropout=config.dropout,
        initializer=config.initializer,
        activation=config.activation,
    ).init(device)


def norm_of(config: StackConfig, device: torch.device | str | None) -> LayerNorm:
    return LayerNormConfig(d_model=config.d_model, epsilon=config.layer_norm_eps).init(device)


class Stack(Layer):
    """What an encoder and a decoder say about themselves."""

    def _note_sizes(self, config: StackConfig) -> None:
        self.d_model = config.d_model
        self.d_ff = config.d_ff
        self.n_heads = config.n_heads
        self.n_layers = config.n_layers
        self.dropout = config.dropout
        self.norm_first = config.norm_first
        self.quiet_softmax = config.quiet_softmax

    def custom_content(self, content: Content) -> Content:
        for name in ("d_model", "d_ff", "n_heads", "n_layers", "dropout", "norm_first", "quiet_softmax"):
            content = content.add(name, getattr(self, name))
        return content


def new_rows(layer: object, x: Tensor, mask: Tensor | None, known: TensorCache) -> tuple[Tensor, Tensor | None]:
    """The positions of x that a layer's results in `known` lack, and their rows of an attention mask.

    Raises ShapeError if there are none.
    """
    first = known.length(1)
    if x.shape[1] <= first:
        raise shape_error(layer, f"more than the {first} positions of the cache", x.shape[1])
    return x[:, first:], None if mask is None else mask[:, first:]
