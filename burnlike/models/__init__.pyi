"""The public names of `burnlike.models`: each is imported from where it is defined, at its first use."""

from ..nn.tensor_source import TensorSource as TensorSource
from .bert.configs import (
    BertClassifierConfig as BertClassifierConfig,
    BertEncoderConfig as BertEncoderConfig,
    BertMaskedLmConfig as BertMaskedLmConfig,
)
from .bert.model import (
    BertClassifier as BertClassifier,
    BertEncoder as BertEncoder,
    BertMaskedLm as BertMaskedLm,
    BertOutput as BertOutput,
)
from .conversion import record_from as record_from, record_to as record_to
from .convnext.configs import ConvNextConfig as ConvNextConfig
from .convnext.model import ConvNext as ConvNext
from .decoder_lm.block import DecoderBlock as DecoderBlock, DecoderCache as DecoderCache
from .decoder_lm.configs import (
    DecoderFeedForward as DecoderFeedForward,
    DecoderLmConfig as DecoderLmConfig,
    DecoderPositions as DecoderPositions,
    ExpertsPart as ExpertsPart,
    GatedPart as GatedPart,
    LearnedPositions as LearnedPositions,
    PlainPart as PlainPart,
    RotaryPositions as RotaryPositions,
)
from .decoder_lm.model import DecoderLm as DecoderLm, DecoderLmOutput as DecoderLmOutput
from .encoder_decoder.configs import EncoderDecoderConfig as EncoderDecoderConfig
from .encoder_decoder.model import EncoderDecoder as EncoderDecoder, EncoderDecoderCache as EncoderDecoderCache
from .generation import GenerateOptions as GenerateOptions, next_tokens as next_tokens
from .lstm_lm.configs import LstmLmConfig as LstmLmConfig
from .lstm_lm.model import LstmLm as LstmLm, LstmLmOutput as LstmLmOutput
from .mlp.configs import MlpConfig as MlpConfig
from .mlp.model import Mlp as Mlp
from .pretrained import (
    load_pretrained as load_pretrained,
    pretrained_config as pretrained_config,
    pretrained_table as pretrained_table,
    save_pretrained as save_pretrained,
)
from .resnet.configs import ResNetConfig as ResNetConfig
from .resnet.model import ResNet as ResNet
from .unet.configs import UNetConfig as UNetConfig
from .unet.model import UNet as UNet
from .vit.configs import VisionTransformerConfig as VisionTransformerConfig
from .vit.model import VisionTransformer as VisionTransformer
from .weights.table import (
    WeightTable as WeightTable,
    weight_table as weight_table,
    weight_tables as weight_tables,
)
