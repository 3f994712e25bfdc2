"""The public names of `burnlike.models`: each is imported from where it is defined, at its first use."""

from ..nn.tensor_source import TensorSource as TensorSource
from .conversion import record_from as record_from, record_to as record_to
from .convolutional import ConvNext as ConvNext, ResNet as ResNet, UNet as UNet
from .decoder_block import DecoderBlock as DecoderBlock, DecoderCache as DecoderCache
from .decoder_lm import DecoderLm as DecoderLm, DecoderLmOutput as DecoderLmOutput
from .encoder_decoder import EncoderDecoder as EncoderDecoder, EncoderDecoderCache as EncoderDecoderCache
from .encoders import (
    BertClassifier as BertClassifier,
    BertEncoder as BertEncoder,
    BertMaskedLm as BertMaskedLm,
    BertOutput as BertOutput,
    VisionTransformer as VisionTransformer,
)
from .generation import GenerateOptions as GenerateOptions, next_tokens as next_tokens
from .language_configs import (
    BertClassifierConfig as BertClassifierConfig,
    BertEncoderConfig as BertEncoderConfig,
    BertMaskedLmConfig as BertMaskedLmConfig,
    DecoderFeedForward as DecoderFeedForward,
    DecoderLmConfig as DecoderLmConfig,
    DecoderPositions as DecoderPositions,
    EncoderDecoderConfig as EncoderDecoderConfig,
    ExpertsPart as ExpertsPart,
    GatedPart as GatedPart,
    LearnedPositions as LearnedPositions,
    LstmLmConfig as LstmLmConfig,
    PlainPart as PlainPart,
    RotaryPositions as RotaryPositions,
)
from .lstm_lm import LstmLm as LstmLm, LstmLmOutput as LstmLmOutput
from .mlp import Mlp as Mlp
from .pretrained import (
    load_pretrained as load_pretrained,
    pretrained_config as pretrained_config,
    pretrained_table as pretrained_table,
    save_pretrained as save_pretrained,
)
from .vision_configs import (
    ConvNextConfig as ConvNextConfig,
    MlpConfig as MlpConfig,
    ResNetConfig as ResNetConfig,
    UNetConfig as UNetConfig,
    VisionTransformerConfig as VisionTransformerConfig,
)
from .weights.table import WeightTable as WeightTable, weight_table as weight_table, weight_tables as weight_tables
