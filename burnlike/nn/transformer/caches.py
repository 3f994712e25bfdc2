"""What transformers have computed of earlier positions, with which they generate."""

from torch import Tensor

from ..attention.attend import TensorCache
from ..attention.multi_head_attention import MhaCache
from ..layer import shape_error


class TransformerEncoderLayerAutoregressiveCache:
    """What an encoder layer has computed of earlier positions; the output is `[batch, length, d_model]`."""

    def __init__(self) -> None:
        self.mha = MhaCache.autoregressive()
        self.output = TensorCache()


class TransformerEncoderAutoregressiveCache:
    """What an encoder has computed of earlier positions: a cache for each layer."""

    def __init__(self, n_layers: int) -> None:
        self.layers = [TransformerEncoderLayerAutoregressiveCache() for _ in range(n_layers)]


class TransformerDecoderLayerAutoregressiveCache:
    """What a decoder layer has computed: keys and values of target and memory, `[batch, length, d_model]` outputs."""

    def __init__(self) -> None:
        self.self_attn = MhaCache.autoregressive()
        self.cross_attn = MhaCache.autoregressive_cross_attention()
        self.output = TensorCache()


class TransformerDecoderAutoregressiveCache:
    """What a decoder has computed of earlier positions: a cache for each layer."""

    def __init__(self, n_layers: int) -> None:
        self.layers = [TransformerDecoderLayerAutoregressiveCache() for _ in range(n_layers)]


def new_rows(layer: object, x: Tensor, mask: Tensor | None, known: TensorCache) -> tuple[Tensor, Tensor | None]:
    """The positions of x that a layer's results in `known` lack, one at least, and their rows of an attention mask."""
    first = known.length(1)
    if x.shape[1] <= first:
        raise shape_error(layer, f"more than the {first} positions of the cache", x.shape[1])
    return x[:, first:], None if mask is None else mask[:, first:]
