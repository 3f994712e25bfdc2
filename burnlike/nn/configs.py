"""The configs of every layer, without torch: what a YAML file may name by `type:`."""

from .causal_attention_config import CausalAttentionConfig
from .decoder_lm_config import DecoderLmConfig
from .dropout_config import DropoutConfig
from .embedding_config import EmbeddingConfig
from .initializer_config import (
    Constant,
    Initializer,
    KaimingNormal,
    KaimingUniform,
    Normal,
    Ones,
    Orthogonal,
    Uniform,
    XavierNormal,
    XavierUniform,
    Zeros,
)
from .linear_config import LinearConfig
from .rms_norm_config import RmsNormConfig
from .rotary_encoding_config import RotaryEncodingConfig
from .swiglu_config import SwiGluConfig

__all__ = [
    "CausalAttentionConfig",
    "Constant",
    "DecoderLmConfig",
    "DropoutConfig",
    "EmbeddingConfig",
    "Initializer",
    "KaimingNormal",
    "KaimingUniform",
    "LinearConfig",
    "Normal",
    "Ones",
    "Orthogonal",
    "RmsNormConfig",
    "RotaryEncodingConfig",
    "SwiGluConfig",
    "Uniform",
    "XavierNormal",
    "XavierUniform",
    "Zeros",
]
