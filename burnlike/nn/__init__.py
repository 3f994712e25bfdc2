"""Layers, each with its Config."""

from typing import TYPE_CHECKING

from .._lazy import attach
from . import configs
from .configs import *  # noqa: F403 - the configs load no torch, so they need not be lazy

if TYPE_CHECKING:
    from .causal_attention import CausalAttention
    from .decoder_lm import DecoderBlock, DecoderLm
    from .dropout import Dropout
    from .embedding import Embedding
    from .linear import Linear
    from .rms_norm import RmsNorm
    from .rotary_encoding import RotaryEncoding
    from .swiglu import SwiGlu

_LAYERS = {
    "CausalAttention": "causal_attention",
    **dict.fromkeys(["DecoderBlock", "DecoderLm"], "decoder_lm"),
    "Dropout": "dropout",
    "Embedding": "embedding",
    "Linear": "linear",
    "RmsNorm": "rms_norm",
    "RotaryEncoding": "rotary_encoding",
    "SwiGlu": "swiglu",
}

__all__ = [*configs.__all__, *_LAYERS]  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__, __dir__ = attach(__name__, _LAYERS)
