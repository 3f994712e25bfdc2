"""The public names of `burnlike.nn`: each is imported from where it is defined, at its first use."""

from .activation.configs import SwiGluConfig as SwiGluConfig
from .activation.swiglu import SwiGlu as SwiGlu
from .attention.causal_attention import CausalAttention as CausalAttention
from .attention.configs import (
    CausalAttentionConfig as CausalAttentionConfig,
    RotaryEncodingConfig as RotaryEncodingConfig,
)
from .attention.rotary_encoding import RotaryEncoding as RotaryEncoding
from .dropout.configs import DropoutConfig as DropoutConfig
from .dropout.dropout import Dropout as Dropout
from .embedding.configs import EmbeddingConfig as EmbeddingConfig
from .embedding.embedding import Embedding as Embedding
from .initializers.configs import (
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
from .linear.configs import LinearConfig as LinearConfig
from .linear.linear import Linear as Linear
from .norm.configs import RmsNormConfig as RmsNormConfig
from .norm.rms_norm import RmsNorm as RmsNorm
from .transformer.configs import DecoderLmConfig as DecoderLmConfig
from .transformer.decoder_lm import DecoderBlock as DecoderBlock, DecoderLm as DecoderLm
