"""The public names of `burnlike.models`: each is imported from where it is defined, at its first use."""

from ..nn.tensor_source import TensorSource as TensorSource
from .beams import Beams as Beams
from .by_path.configs import PretrainedConfig as PretrainedConfig
from .by_path.saving import save_for_transformers as save_for_transformers
from .completions import complete as complete, stop_texts as stop_texts, stream_several as stream_several
from .conversion import record_from as record_from, record_to as record_to
from .convolutional.configs import (
    ConvNextConfig as ConvNextConfig,
    ResNetConfig as ResNetConfig,
    UNetConfig as UNetConfig,
)
from .convolutional.model import ConvNext as ConvNext, ResNet as ResNet, UNet as UNet
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
from .encoders.configs import (
    BertClassifierConfig as BertClassifierConfig,
    BertEncoderConfig as BertEncoderConfig,
    BertMaskedLmConfig as BertMaskedLmConfig,
    SiameseConfig as SiameseConfig,
    TextClassifierConfig as TextClassifierConfig,
    TokenTaggerConfig as TokenTaggerConfig,
    VisionTransformerConfig as VisionTransformerConfig,
)
from .encoders.model import (
    BertClassifier as BertClassifier,
    BertEncoder as BertEncoder,
    BertMaskedLm as BertMaskedLm,
    BertOutput as BertOutput,
    VisionTransformer as VisionTransformer,
)
from .encoders.text_models import (
    Siamese as Siamese,
    TextClassifier as TextClassifier,
    TokenTagger as TokenTagger,
)
from .generation import (
    Completions as Completions,
    GenerateOptions as GenerateOptions,
    Reader as Reader,
    stream as stream,
)
from .lora.configs import LoRAConfig as LoRAConfig
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
from .sampling import Sampler as Sampler, SamplingOptions as SamplingOptions, next_tokens as next_tokens
from .speculation import DraftModel as DraftModel
from .weights.table import WeightTable as WeightTable, weight_table as weight_table, weight_tables as weight_tables
