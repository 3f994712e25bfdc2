"""Transformer decoder."""

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
from .configs import TransformerDecoderConfig
from .stack import Stack, attention_of, feed_forward_of, new_rows, norm_of

Masks = tuple[Tensor | None, Tensor | None]


class TransformerDecoderLayerAutoregressiveCache:
    """What a decoder layer has computed of earlier positions.

    Attributes:
        self_attn: keys and values of the target.
        cross_attn: keys and values of the memory.
        output: `[batch, length, d_model]`.
    """

    def __init__(self) -> None:
        self.self_attn = MhaCache.autoregressive()
        self.cross_attn = MhaCache.autoregressive_cross_attention()
        self.output = TensorCache()


class TransformerDecoderAutoregressiveCache:
    """What a decoder has computed of earlier positions: a cache for each layer."""

    def __init__(self, n_layers: int) -> None:
        self.layers = [TransformerDecoderLayerAutoregressiveCache() for _ in range(n_layers)]


class TransformerDecoderLayer(KeepsType, Module):
    """Self-attention, attention to the memory, and the feed-forward part (Vaswani et al. 2017, section 3.1).

    Each part's result is added to what it got, and the sum is normalized: by `norm_1`, `norm_2` and `norm_3`. With
    `norm_first` what a part gets is normalized instead: by `norm_3`, `norm_1` and `norm_2`, as in Burn.
    """

    def __init__(self, config: TransformerDecoderConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.cross_attn = attention_of(config, device)
        self.self_attn = attention_of(config, device)
        self.pwff = feed_forward_of(config, device)
        self.norm_1 = norm_of(config, device)
        self.norm_2 = norm_of(config, device)
        self.norm_3 = norm_of(config, device)
        self.dropout = DropoutConfig(prob=config.dropout).init()
        self.norm_first = config.norm_first

    @lift
    def forward(
        self,
        target: Tensor,
        memory: Tensor,
        target_mask_pad: Tensor | None = None,
        target_mask_attn: Tensor | None = None,
        memory_mask_pad: Tensor | None = None,
        memory_mask_attn: Tensor | None = None,
    ) -> Tensor:
        """As `TransformerDecoder.forward`."""
        masks = (target_mask_pad, target_mask_attn), (memory_mask_pad, memory_mask_attn)
        return self._forward(target, memory, *masks, None)

    @lift
    def forward_autoregressive_inference(
        self,
        target: Tensor,
        memory: Tensor,
        cache: TransformerDecoderLayerAutoregressiveCache,
        target_mask_pad: Tensor | None = None,
        target_mask_attn: Tensor | None = None,
        memory_mask_pad: Tensor | None = None,
        memory_mask_attn: Tensor | None = None,
    ) -> Tensor:
        """As `TransformerDecoder.forward_autoregressive_inference`, with the cache of this layer."""
        new, target_mask_attn = new_rows(self, target, target_mask_attn, cache.output)
        _, memory_mask_attn = new_rows(self, target, memory_mask_attn, cache.output)
        masks = (target_mask_pad, target_mask_attn), (memory_mask_pad, memory_mask_attn)
        return cache.output.append(self._forward(new, memory, *masks, cache), 1)

    def _forward(
        self,
        x: Tensor,
        memory: Tensor,
        of_target: Masks,
        of_memory: Masks,
        cache: TransformerDecoderLayerAutoregressiveCache | None,
    ) -> Tensor:
        y = self.norm_3(x) if self.norm_first else x
        if cache is None:
            y = self.self_attn(y, y, y, *of_target, need_weights=False).context
        else:
            y = self.self_attn.forward_new(y, y, y, *of_target, cache=cache.self_attn)
        x = x + self.dropout(y)
        y = self.norm_1(x)
        x = x if self.norm_first else y
        if cache is None:
            y = self.cross_attn(y, memory, memory, *of_memory, need_weights=False).context
        else:
            y = self.cross_attn.forward_new(y, memory, memory, *of_memory, cache=cache.cross_attn)
        x = x + self.dropout(y)
        y = self.norm_2(x)
        x = x if self.norm_first else y
        x = x + self.dropout(self.pwff(y))
        return x if self.norm_first else self.norm_3(x)


class TransformerDecoder(KeepsType, Stack):
    """Layers of self-attention, attention to a memory, and a feed-forward part (Vaswani et al. 2017, section 3.1).

    The memory is used as it is, and there is no norm at the end.

    Torch: `nn.TransformerDecoder`.
    Differs: batches first; GELU by default; with `norm_first` the norms of a layer have each other's names.
    """

    def __init__(self, config: TransformerDecoderConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(TransformerDecoderLayer(config, device) for _ in range(config.n_layers))
        self._note_sizes(config)

    @lift
    def forward(
        self,
        target: Tensor,
        memory: Tensor,
        target_mask_pad: Tensor | None = None,
        target_mask_attn: Tensor | None = None,
        memory_mask_pad: Tensor | None = None,
        memory_mask_attn: Tensor | None = None,
    ) -> Tensor:
        """`[batch, length, d_model] -> [batch, length, d_model]`.

        Args:
            target: `[batch, length, d_model]`.
            memory: `[batch, keys, d_model]`, such as the output of an encoder.
            target_mask_pad: bool `[batch, length]`, True where a position of the target is hidden.
            target_mask_attn: bool `[batch, length, length]`, True where it is hidden from one.
            memory_mask_pad: bool `[batch, keys]`, True where a position of the memory is hidden.
            memory_mask_attn: bool `[batch, length, keys]`, True where it is hidden from one of the target.

        Raises:
            ShapeError: an input or a mask has another shape.
            DTypeError: a mask is not bool.
        """
        self._check(target, memory)
        masks = target_mask_pad, target_mask_attn, memory_mask_pad, memory_mask_attn
        for layer in self.layers:
            target = layer(target, memory, *masks)
        return target

    @lift
    def forward_autoregressive_inference(
        self,
        target: Tensor,
        memory: Tensor,
        cache: TransformerDecoderAutoregressiveCache,
        target_mask_pad: Tensor | None = None,
        target_mask_attn: Tensor | None = None,
        memory_mask_pad: Tensor | None = None,
        memory_mask_attn: Tensor | None = None,
    ) -> Tensor:
        """As `forward` on all positions so far, where only those are computed that `cache` does not have.

        A position sees those before it and, among several new ones, those that `target_mask_attn` doesn't hide. What
        is in the memory matters in the first call only.

        Raises:
            ShapeError: an input or a mask has another shape, or no position is new.
            DTypeError: a mask is not bool.
        """
        self._check(target, memory)
        masks = target_mask_pad, target_mask_attn, memory_mask_pad, memory_mask_attn
        layers: Any = self.layers
        for layer, its in zip(layers, cache.layers, strict=True):
            target = layer.forward_autoregressive_inference(target, memory, its, *masks)
        return target

    def new_autoregressive_cache(self) -> TransformerDecoderAutoregressiveCache:
        return TransformerDecoderAutoregressiveCache(len(self.layers))

    def _check(self, target: Tensor, memory: Tensor) -> None:
        expect_shape(self, target, "batch", "length", self.d_model, name="target")
        expect_shape(self, memory, target.shape[0], "keys", self.d_model, name="memory")
