"""The public names of `burnlike.nn`: each is imported from where it is defined, at its first use."""

from ..models.decoder_lm.block import DecoderBlock as DecoderBlock
from ..models.decoder_lm.configs import DecoderLmConfig as DecoderLmConfig
from ..models.decoder_lm.model import DecoderLm as DecoderLm
from .activation.activation import GLU as GLU, Activation as Activation, GatedLinear as GatedLinear, SwiGlu as SwiGlu
from .activation.configs import (
    CeluConfig as CeluConfig,
    EluConfig as EluConfig,
    GatedLinearConfig as GatedLinearConfig,
    GeluConfig as GeluConfig,
    GLUConfig as GLUConfig,
    HardShrinkConfig as HardShrinkConfig,
    HardSigmoidConfig as HardSigmoidConfig,
    HardSwishConfig as HardSwishConfig,
    HardtanhConfig as HardtanhConfig,
    IdentityConfig as IdentityConfig,
    LeakyReluConfig as LeakyReluConfig,
    LogSigmoidConfig as LogSigmoidConfig,
    MishConfig as MishConfig,
    PReluConfig as PReluConfig,
    Relu6Config as Relu6Config,
    ReluConfig as ReluConfig,
    RReluConfig as RReluConfig,
    SeluConfig as SeluConfig,
    ShrinkConfig as ShrinkConfig,
    SigmoidConfig as SigmoidConfig,
    SiLUConfig as SiLUConfig,
    SoftplusConfig as SoftplusConfig,
    SoftShrinkConfig as SoftShrinkConfig,
    SoftsignConfig as SoftsignConfig,
    SwiGluConfig as SwiGluConfig,
    TanhConfig as TanhConfig,
    TanhshrinkConfig as TanhshrinkConfig,
    ThresholdConfig as ThresholdConfig,
    ThresholdedReluConfig as ThresholdedReluConfig,
)
from .activation.elementwise import (
    Celu as Celu,
    Elu as Elu,
    Gelu as Gelu,
    HardShrink as HardShrink,
    HardSigmoid as HardSigmoid,
    HardSwish as HardSwish,
    Hardtanh as Hardtanh,
    LeakyRelu as LeakyRelu,
    LogSigmoid as LogSigmoid,
    Mish as Mish,
    PRelu as PRelu,
    Relu as Relu,
    Relu6 as Relu6,
    RRelu as RRelu,
    Selu as Selu,
    Shrink as Shrink,
    Sigmoid as Sigmoid,
    SiLU as SiLU,
    Softplus as Softplus,
    SoftShrink as SoftShrink,
    Softsign as Softsign,
    Tanh as Tanh,
    Tanhshrink as Tanhshrink,
    Threshold as Threshold,
    ThresholdedRelu as ThresholdedRelu,
)
from .attention.attend import KeyValueCache as KeyValueCache
from .attention.causal_attention import CausalAttention as CausalAttention
from .attention.configs import (
    CausalAttentionConfig as CausalAttentionConfig,
    CrossAttentionConfig as CrossAttentionConfig,
    MultiHeadAttentionConfig as MultiHeadAttentionConfig,
    PositionalEncodingConfig as PositionalEncodingConfig,
    RelativePositionBiasConfig as RelativePositionBiasConfig,
    RotaryEncodingConfig as RotaryEncodingConfig,
)
from .attention.masks import (
    GeneratePaddingMask as GeneratePaddingMask,
    generate_autoregressive_mask as generate_autoregressive_mask,
    generate_padding_mask as generate_padding_mask,
)
from .attention.multi_head_attention import (
    CrossAttention as CrossAttention,
    CrossAttentionCache as CrossAttentionCache,
    MhaCache as MhaCache,
    MhaOutput as MhaOutput,
    MultiHeadAttention as MultiHeadAttention,
)
from .attention.positions import (
    PositionalEncoding as PositionalEncoding,
    RelativePositionBias as RelativePositionBias,
    generate_sinusoids as generate_sinusoids,
)
from .attention.rotary_encoding import RotaryEncoding as RotaryEncoding
from .attention.scaling_configs import (
    DynamicScaling as DynamicScaling,
    LinearScaling as LinearScaling,
    Llama3Scaling as Llama3Scaling,
    RotaryScaling as RotaryScaling,
    YarnScaling as YarnScaling,
)
from .blocks.blocks import (
    BasicBlock as BasicBlock,
    Bottleneck as Bottleneck,
    ConvNorm2d as ConvNorm2d,
    DepthwiseSeparableConv2d as DepthwiseSeparableConv2d,
    LayerScale as LayerScale,
    PatchEmbedding as PatchEmbedding,
    SqueezeExcite as SqueezeExcite,
)
from .blocks.configs import (
    BasicBlockConfig as BasicBlockConfig,
    BottleneckConfig as BottleneckConfig,
    ConvNorm2dConfig as ConvNorm2dConfig,
    DepthwiseSeparableConv2dConfig as DepthwiseSeparableConv2dConfig,
    LayerScaleConfig as LayerScaleConfig,
    PatchEmbeddingConfig as PatchEmbeddingConfig,
    SqueezeExciteConfig as SqueezeExciteConfig,
)
from .configs import (
    CosineSimilarityConfig as CosineSimilarityConfig,
    DropoutConfig as DropoutConfig,
    DropPathConfig as DropPathConfig,
    EmbeddingConfig as EmbeddingConfig,
    GaussianNoiseConfig as GaussianNoiseConfig,
    Interpolate1dConfig as Interpolate1dConfig,
    Interpolate2dConfig as Interpolate2dConfig,
    LinearConfig as LinearConfig,
    PairwiseDistanceConfig as PairwiseDistanceConfig,
)
from .containers.configs import (
    GraphConfig as GraphConfig,
    NodeConfig as NodeConfig,
    RepeatConfig as RepeatConfig,
    ResidualConfig as ResidualConfig,
    SequentialConfig as SequentialConfig,
)
from .containers.containers import Graph as Graph, Repeat as Repeat, Residual as Residual, Sequential as Sequential
from .conv.configs import (
    Conv1dConfig as Conv1dConfig,
    Conv2dConfig as Conv2dConfig,
    Conv3dConfig as Conv3dConfig,
    ConvTranspose1dConfig as ConvTranspose1dConfig,
    ConvTranspose2dConfig as ConvTranspose2dConfig,
    ConvTranspose3dConfig as ConvTranspose3dConfig,
    DeformConv2dConfig as DeformConv2dConfig,
    Fold4dConfig as Fold4dConfig,
    PixelShuffleConfig as PixelShuffleConfig,
    PixelUnshuffleConfig as PixelUnshuffleConfig,
    Unfold4dConfig as Unfold4dConfig,
)
from .conv.conv import (
    Conv1d as Conv1d,
    Conv2d as Conv2d,
    Conv3d as Conv3d,
    ConvTranspose1d as ConvTranspose1d,
    ConvTranspose2d as ConvTranspose2d,
    ConvTranspose3d as ConvTranspose3d,
    DeformConv2d as DeformConv2d,
)
from .conv.windows import (
    Fold4d as Fold4d,
    PixelShuffle as PixelShuffle,
    PixelUnshuffle as PixelUnshuffle,
    Unfold4d as Unfold4d,
)
from .dropout import Dropout as Dropout, DropPath as DropPath, GaussianNoise as GaussianNoise
from .embedding import Embedding as Embedding
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
from .interpolate import Interpolate1d as Interpolate1d, Interpolate2d as Interpolate2d
from .linear import Identity as Identity, Linear as Linear
from .loss.configs import (
    BinaryCrossEntropyLossConfig as BinaryCrossEntropyLossConfig,
    CosineEmbeddingLossConfig as CosineEmbeddingLossConfig,
    CrossEntropyLossConfig as CrossEntropyLossConfig,
    CTCLossConfig as CTCLossConfig,
    GaussianNLLLossConfig as GaussianNLLLossConfig,
    HingeEmbeddingLossConfig as HingeEmbeddingLossConfig,
    HuberLossConfig as HuberLossConfig,
    KLDivLossConfig as KLDivLossConfig,
    LpLossConfig as LpLossConfig,
    MarginRankingLossConfig as MarginRankingLossConfig,
    MseLossConfig as MseLossConfig,
    MultiMarginLossConfig as MultiMarginLossConfig,
    PoissonNllLossConfig as PoissonNllLossConfig,
    Reduction as Reduction,
    RNNTLossConfig as RNNTLossConfig,
    SmoothL1LossConfig as SmoothL1LossConfig,
    SoftMarginLossConfig as SoftMarginLossConfig,
    TripletMarginLossConfig as TripletMarginLossConfig,
)
from .loss.cross_entropy import BinaryCrossEntropyLoss as BinaryCrossEntropyLoss, CrossEntropyLoss as CrossEntropyLoss
from .loss.elementwise import (
    GaussianNLLLoss as GaussianNLLLoss,
    HuberLoss as HuberLoss,
    KLDivLoss as KLDivLoss,
    LpLoss as LpLoss,
    MseLoss as MseLoss,
    PoissonNllLoss as PoissonNllLoss,
    SmoothL1Loss as SmoothL1Loss,
)
from .loss.margins import (
    CosineEmbeddingLoss as CosineEmbeddingLoss,
    HingeEmbeddingLoss as HingeEmbeddingLoss,
    MarginRankingLoss as MarginRankingLoss,
    MultiMarginLoss as MultiMarginLoss,
    SoftMarginLoss as SoftMarginLoss,
    TripletMarginLoss as TripletMarginLoss,
)
from .loss.sequences import CTCLoss as CTCLoss, RNNTLoss as RNNTLoss
from .norm.configs import (
    BatchNormConfig as BatchNormConfig,
    GroupNormConfig as GroupNormConfig,
    InstanceNormConfig as InstanceNormConfig,
    LayerNormConfig as LayerNormConfig,
    LocalResponseNormConfig as LocalResponseNormConfig,
    RmsNormConfig as RmsNormConfig,
)
from .norm.norm import (
    BatchNorm as BatchNorm,
    GroupNorm as GroupNorm,
    InstanceNorm as InstanceNorm,
    LayerNorm as LayerNorm,
    LocalResponseNorm as LocalResponseNorm,
    Normalization as Normalization,
    RmsNorm as RmsNorm,
)
from .operations.arithmetic import (
    ConstantTensor as ConstantTensor,
    Divide as Divide,
    Exp as Exp,
    Log as Log,
    MatMul as MatMul,
    Negate as Negate,
    Parameter as Parameter,
    Softmax as Softmax,
    Sqrt as Sqrt,
    Subtract as Subtract,
)
from .operations.configs import (
    AddConfig as AddConfig,
    ConcatConfig as ConcatConfig,
    ConstantTensorConfig as ConstantTensorConfig,
    DivideConfig as DivideConfig,
    ExpConfig as ExpConfig,
    FlattenConfig as FlattenConfig,
    LogConfig as LogConfig,
    MatMulConfig as MatMulConfig,
    MaxConfig as MaxConfig,
    MeanConfig as MeanConfig,
    MinConfig as MinConfig,
    MultiplyConfig as MultiplyConfig,
    NegateConfig as NegateConfig,
    PadConfig as PadConfig,
    ParameterConfig as ParameterConfig,
    PermuteConfig as PermuteConfig,
    ReshapeConfig as ReshapeConfig,
    SelectConfig as SelectConfig,
    SliceConfig as SliceConfig,
    SoftmaxConfig as SoftmaxConfig,
    SplitConfig as SplitConfig,
    SqrtConfig as SqrtConfig,
    StackConfig as StackConfig,
    SubtractConfig as SubtractConfig,
    SumConfig as SumConfig,
)
from .operations.shapes import (
    Add as Add,
    Concat as Concat,
    Flatten as Flatten,
    Max as Max,
    Mean as Mean,
    Min as Min,
    Multiply as Multiply,
    Pad as Pad,
    Permute as Permute,
    Reshape as Reshape,
    Select as Select,
    Slice as Slice,
    Split as Split,
    Stack as Stack,
    Sum as Sum,
)
from .padding import (
    PaddingConfig1d as PaddingConfig1d,
    PaddingConfig2d as PaddingConfig2d,
    PaddingConfig3d as PaddingConfig3d,
)
from .pool.configs import (
    AdaptiveAvgPool1dConfig as AdaptiveAvgPool1dConfig,
    AdaptiveAvgPool2dConfig as AdaptiveAvgPool2dConfig,
    AdaptiveAvgPool3dConfig as AdaptiveAvgPool3dConfig,
    AvgPool1dConfig as AvgPool1dConfig,
    AvgPool2dConfig as AvgPool2dConfig,
    MaxPool1dConfig as MaxPool1dConfig,
    MaxPool2dConfig as MaxPool2dConfig,
    MaxPool3dConfig as MaxPool3dConfig,
)
from .pool.pool import (
    AdaptiveAvgPool1d as AdaptiveAvgPool1d,
    AdaptiveAvgPool2d as AdaptiveAvgPool2d,
    AdaptiveAvgPool3d as AdaptiveAvgPool3d,
    AvgPool1d as AvgPool1d,
    AvgPool2d as AvgPool2d,
    MaxPool1d as MaxPool1d,
    MaxPool2d as MaxPool2d,
    MaxPool3d as MaxPool3d,
)
from .recurrent.configs import (
    BiGruConfig as BiGruConfig,
    BiLstmConfig as BiLstmConfig,
    BiRnnConfig as BiRnnConfig,
    GruConfig as GruConfig,
    LstmConfig as LstmConfig,
    RnnConfig as RnnConfig,
)
from .recurrent.recurrence import GateController as GateController
from .recurrent.recurrent import (
    BiGru as BiGru,
    BiLstm as BiLstm,
    BiRnn as BiRnn,
    Gru as Gru,
    Lstm as Lstm,
    LstmState as LstmState,
    Rnn as Rnn,
    RnnState as RnnState,
)
from .roles import ActivationConfig as ActivationConfig, NormalizationConfig as NormalizationConfig
from .similarity import CosineSimilarity as CosineSimilarity, PairwiseDistance as PairwiseDistance
from .transformer.configs import (
    GatedFeedForwardConfig as GatedFeedForwardConfig,
    MixtureOfExpertsConfig as MixtureOfExpertsConfig,
    PositionWiseFeedForwardConfig as PositionWiseFeedForwardConfig,
    TransformerDecoderConfig as TransformerDecoderConfig,
    TransformerEncoderConfig as TransformerEncoderConfig,
)
from .transformer.feed_forward import (
    GatedFeedForward as GatedFeedForward,
    MixtureOfExperts as MixtureOfExperts,
    MixtureOutput as MixtureOutput,
    PositionWiseFeedForward as PositionWiseFeedForward,
)
from .transformer.transformer import (
    TransformerDecoder as TransformerDecoder,
    TransformerDecoderAutoregressiveCache as TransformerDecoderAutoregressiveCache,
    TransformerDecoderLayer as TransformerDecoderLayer,
    TransformerDecoderLayerAutoregressiveCache as TransformerDecoderLayerAutoregressiveCache,
    TransformerEncoder as TransformerEncoder,
    TransformerEncoderAutoregressiveCache as TransformerEncoderAutoregressiveCache,
    TransformerEncoderLayer as TransformerEncoderLayer,
    TransformerEncoderLayerAutoregressiveCache as TransformerEncoderLayerAutoregressiveCache,
)
