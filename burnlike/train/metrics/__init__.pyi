"""The public names of `burnlike.train.metrics`: each is imported from where it is defined, at its first use."""

from .base import EpochMetric as EpochMetric, metric_state as metric_state, restore_metric as restore_metric
from .classification import (
    AucPr as AucPr,
    Auroc as Auroc,
    ConfusionStats as ConfusionStats,
    FBetaScore as FBetaScore,
    Hamming as Hamming,
    Precision as Precision,
    Recall as Recall,
)
from .configs import (
    AccuracyConfig as AccuracyConfig,
    AucPrConfig as AucPrConfig,
    AurocConfig as AurocConfig,
    BleuConfig as BleuConfig,
    CharErrorRateConfig as CharErrorRateConfig,
    ConfusionStatsConfig as ConfusionStatsConfig,
    CpuMemoryConfig as CpuMemoryConfig,
    CpuUseConfig as CpuUseConfig,
    CudaMemoryConfig as CudaMemoryConfig,
    CudaUseConfig as CudaUseConfig,
    FBetaScoreConfig as FBetaScoreConfig,
    HammingConfig as HammingConfig,
    IterationSpeedConfig as IterationSpeedConfig,
    LearningRateConfig as LearningRateConfig,
    LossConfig as LossConfig,
    PerplexityConfig as PerplexityConfig,
    PrecisionConfig as PrecisionConfig,
    RecallConfig as RecallConfig,
    RougeLConfig as RougeLConfig,
    RougeNConfig as RougeNConfig,
    SpanF1Config as SpanF1Config,
    TopKAccuracyConfig as TopKAccuracyConfig,
    WordErrorRateConfig as WordErrorRateConfig,
)
from .image_configs import (
    DiceConfig as DiceConfig,
    MsSsimConfig as MsSsimConfig,
    PsnrConfig as PsnrConfig,
    SsimConfig as SsimConfig,
)
from .images import Dice as Dice, MsSsim as MsSsim, Psnr as Psnr, Ssim as Ssim
from .means import (
    Accuracy as Accuracy,
    LearningRate as LearningRate,
    Loss as Loss,
    Perplexity as Perplexity,
    TopKAccuracy as TopKAccuracy,
)
from .outputs import spans_of as spans_of
from .sequences import (
    Bleu as Bleu,
    CharErrorRate as CharErrorRate,
    RougeL as RougeL,
    RougeN as RougeN,
    WordErrorRate as WordErrorRate,
)
from .spans import SpanF1 as SpanF1
from .system import (
    CpuMemory as CpuMemory,
    CpuUse as CpuUse,
    CudaMemory as CudaMemory,
    CudaUse as CudaUse,
    IterationSpeed as IterationSpeed,
)
