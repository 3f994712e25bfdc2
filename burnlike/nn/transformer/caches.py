"""Caches of earlier positions, with which transformers generate."""

from torch import Tensor

from ..attention.attend import TensorCache
from ..attention.multi_head_attention import MhaCache
from ..layer import shape_error


class TransformerEncoderLayerAutoregressiveCache:
    """Cache of an encoder layer's earlier positions; the output is `[batch, length, d_model]`."""

    def __init__(self) -> None:
        self.mha = MhaCache.autoregressive()
        self.output = TensorCache()


class TransformerEncoderAutoregressiveCache:
    """Cache of an encoder's earlier positions: one for each layer."""

    def __init__(self, n_layers: int) -> None:
        self.layers = [TransformerEncoderLayerAutoregressiveCache() for _ in range(n_layers)]


class TransformerDecoderLayerAutoregressiveCache:
    """Cache of a decoder layer: keys and values of target and memory, `[batch, length, d_model]` outputs."""

    def __init__(self) -> None:
        self.self_attn = MhaCache.autoregressive()
        self.cross_attn = MhaCache.autoregressive_cross_attention()
        self.output = TensorCache()


class TransformerDecoderAutoregressiveCache:
    """Cache of a decoder's earlier positions: one for each layer."""

    def __init__(self, n_layers: int) -> None:
        self.layers = [TransformerDecoderLayerAutoregressiveCache() for _ in range(n_layers)]


def new_rows(layer: object, x: Tensor, mask: Tensor | None, cache: TensorCache) -> tuple[Tensor, Tensor | None]:
    """The positions of x that a layer's results in `cache` lack, one at least, and their rows of an attention mask."""
    first = cache.length(1)
    if x.shape[1] <= first:
        raise shape_error(layer, f"more than the {first} positions of the cache", x.shape[1])
    return x[:, first:], None if mask is None else mask[:, first:]
