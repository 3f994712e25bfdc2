"""The public names of `burnlike.nn`: each is imported from where it is defined, at its first use."""

from .causal_attention import CausalAttention as CausalAttention
from .causal_attention_config import CausalAttentionConfig as CausalAttentionConfig
from .decoder_lm import DecoderBlock as DecoderBlock, DecoderLm as DecoderLm
from .decoder_lm_config import DecoderLmConfig as DecoderLmConfig
from .dropout import Dropout as Dropout
from .dropout_config import DropoutConfig as DropoutConfig
from .embedding import Embedding as Embedding
from .embedding_config import EmbeddingConfig as EmbeddingConfig
from .initializer_config import (
    Constant as Constant,
    Initializer as Initializer,
    KaimingNormal as KaimingNormal,
    KaimingUniform as KaimingUniform,
    Normal as Normal,
    Ones as Ones,
    Orthogonal as Orthogonal,
    Uniform as Uniform,
    XavierNormal as XavierNormal,
    XavierUniform as XavierUniform,
    Zeros as Zeros,
)
from .linear import Linear as Linear
from .linear_config import LinearConfig as LinearConfig
from .rms_norm import RmsNorm as RmsNorm
from .rms_norm_config import RmsNormConfig as RmsNormConfig
from .rotary_encoding import RotaryEncoding as RotaryEncoding
from .rotary_encoding_config import RotaryEncodingConfig as RotaryEncodingConfig
from .swiglu import SwiGlu as SwiGlu
from .swiglu_config import SwiGluConfig as SwiGluConfig
