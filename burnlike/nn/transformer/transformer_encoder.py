"""Transformer encoder."""

from typing import Any

import torch
from torch import Tensor, nn

from ...module import Module
from ...tensor.torch_bridge.torch_function import lift
from ..attention.caches import TensorCache
from ..attention.multi_head_attention import MhaCache
from ..call_types import KeepsType
from ..dropout.configs import DropoutConfig
from ..layer import expect_shape
from .configs import TransformerEncoderConfig
from .stack import Stack, attention_of, feed_forward_of, new_rows, norm_of


class TransformerEncoderLayerAutoregressiveCache:
    """What an encoder layer has computed of earlier positions; the output is `[batch, length, d_model]`."""

    def __init__(self) -> None:
        self.mha = MhaCache.autoregressive()
        self.output = TensorCache()


class TransformerEncoderAutoregressiveCache:
    """What an encoder has computed of earlier positions: a cache for each layer."""

    def __init__(self, n_layers: int) -> None:
        self.layers = [TransformerEncoderLayerAutoregressiveCache() for _ in range(n_layers)]


class TransformerEncoderLayer(KeepsType, Module):
    """norm_2(y + feed_forward(y)) of y = norm_1(x + attention(x)) (Vaswani et al. 2017, section 3.1).

    With `norm_first` y + feed_forward(norm_1(y)) of y = x + attention(norm_2(x)): Burn has the norms in this order,
    `torch.nn.TransformerEncoderLayer` in the other.
    """

    def __init__(self, config: TransformerEncoderConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.mha = attention_of(config, device)
        self.pwff = feed_forward_of(config, device)
        self.norm_1 = norm_of(config, device)
        self.norm_2 = norm_of(config, device)
        self.dropout = DropoutConfig(prob=config.dropout).init()
        self.norm_first = config.norm_first

    @lift
    def forward(self, x: Tensor, mask_pad: Tensor | None = None, mask_attn: Tensor | None = None) -> Tensor:
        """As `TransformerEncoder.forward`."""
        return self._forward(x, mask_pad, mask_attn, None)

    @lift
    def forward_autoregressive_inference(
        self,
        x: Tensor,
        cache: TransformerEncoderLayerAutoregressiveCache,
        mask_pad: Tensor | None = None,
        mask_attn: Tensor | None = None,
    ) -> Tensor:
        """As `TransformerEncoder.forward_autoregressive_inference`, with the cache of this layer."""
        new, mask_attn = new_rows(self, x, mask_attn, cache.output)
        return cache.output.append(self._forward(new, mask_pad, mask_attn, cache.mha), 1)

    def _forward(self, x: Tensor, mask_pad: Tensor | None, mask_attn: Tensor | None, cache: MhaCache | None) -> Tensor:
        y = self.norm_2(x) if self.norm_first else x
        if cache is None:
            y = self.mha(y, mask_pad=mask_pad, mask_attn=mask_attn, need_weights=False).context
        else:
            y = self.mha.forward_new(y, y, y, mask_pad, mask_attn, cache=cache)
        x = x + self.dropout(y)
        if self.norm_first:
            return x + self.dropout(self.pwff(self.norm_1(x)))
        x = self.norm_1(x)
        return self.norm_2(x + self.dropout(self.pwff(x)))


class TransformerEncoder(KeepsType, Stack):
    """Layers of self-attention and a feed-forward part (Vaswani et al. 2017, section 3.1); no norm at the end.

    Torch: `nn.TransformerEncoder`.
    Differs: batches first; GELU by default; with `norm_first` the norms of a layer have each other's names.
    """

    def __init__(self, config: TransformerEncoderConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(TransformerEncoderLayer(config, device) for _ in range(config.n_layers))
        self._note_sizes(config)

    @lift
    def forward(self, x: Tensor, mask_pad: Tensor | None = None, mask_attn: Tensor | None = None) -> Tensor:
        """`[batch, length, d_model] -> [batch, length, d_model]`.

        Args:
            x: the positions.
            mask_pad: bool `[batch, length]`, True where a position is hidden.
            mask_attn: bool `[batch, length, length]`, True where a position is hidden from one.

        Raises:
            ShapeError: x or a mask has another shape.
            DTypeError: a mask is not bool.
        """
        expect_shape(self, x, "batch", "length", self.d_model)
        for layer in self.layers:
            x = layer(x, mask_pad, mask_attn)
        return x

    @lift
    def forward_autoregressive_inference(
        self,
        x: Tensor,
        cache: TransformerEncoderAutoregressiveCache,
        mask_pad: Tensor | None = None,
        mask_attn: Tensor | None = None,
    ) -> Tensor:
        """As `forward` on all positions so far, where only those are computed that `cache` does not have.

        A position sees those before it and, among several new ones, those that `mask_attn` doesn't hide.

        Raises:
            ShapeError: x or a mask has another shape, or no position is new.
            DTypeError: a mask is not bool.
        """
        expect_shape(self, x, "batch", "length", self.d_model)
        layers: Any = self.layers
        for layer, its in zip(layers, cache.layers, strict=True):
            x = layer.forward_autoregressive_inference(x, its, mask_pad, mask_attn)
        return x

    def new_autoregressive_cache(self) -> TransformerEncoderAutoregressiveCache:
        return TransformerEncoderAutoregressiveCache(len(self.layers))
