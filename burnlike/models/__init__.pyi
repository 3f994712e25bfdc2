"""The public names of `burnlike.models`: each is imported from where it is defined, at its first use."""

from ..nn.tensor_source import TensorSource as TensorSource
from .bert import BertEncoder as BertEncoder, BertOutput as BertOutput
from .bert_configs import (
    BertClassifierConfig as BertClassifierConfig,
    BertEncoderConfig as BertEncoderConfig,
    BertMaskedLmConfig as BertMaskedLmConfig,
)
from .bert_heads import BertClassifier as BertClassifier, BertMaskedLm as BertMaskedLm
from .conversion import record_from as record_from, record_to as record_to
from .convnext import ConvNext as ConvNext
from .convnext_configs import ConvNextConfig as ConvNextConfig
from .decoder_block import DecoderBlock as DecoderBlock
from .decoder_cache import DecoderCache as DecoderCache
from .decoder_lm import DecoderLm as DecoderLm, DecoderLmOutput as DecoderLmOutput
from .decoder_lm_configs import (
    DecoderFeedForward as DecoderFeedForward,
    DecoderLmConfig as DecoderLmConfig,
    DecoderPositions as DecoderPositions,
    ExpertsPart as ExpertsPart,
    GatedPart as GatedPart,
    LearnedPositions as LearnedPositions,
    PlainPart as PlainPart,
    RotaryPositions as RotaryPositions,
)
from .encoder_decoder import EncoderDecoder as EncoderDecoder, EncoderDecoderCache as EncoderDecoderCache
from .encoder_decoder_configs import EncoderDecoderConfig as EncoderDecoderConfig
from .generation import GenerateOptions as GenerateOptions, next_tokens as next_tokens
from .lstm_lm import LstmLm as LstmLm, LstmLmOutput as LstmLmOutput
from .lstm_lm_configs import LstmLmConfig as LstmLmConfig
from .mlp import Mlp as Mlp
from .mlp_configs import MlpConfig as MlpConfig
from .pretrained import (
    load_pretrained as load_pretrained,
    pretrained_config as pretrained_config,
    pretrained_table as pretrained_table,
    save_pretrained as save_pretrained,
)
from .resnet import ResNet as ResNet
from .resnet_configs import ResNetConfig as ResNetConfig
from .unet import UNet as UNet
from .unet_configs import UNetConfig as UNetConfig
from .vit import VisionTransformer as VisionTransformer
from .vit_configs import VisionTransformerConfig as VisionTransformerConfig
from .weights.table import WeightTable as WeightTable
from .weights.tables import weight_table as weight_table, weight_tables as weight_tables
