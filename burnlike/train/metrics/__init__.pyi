"""The public names of `burnlike.train.metrics`: each is imported from where it is defined, at its first use."""

from .base import EpochMetric as EpochMetric, metric_state as metric_state, restore_metric as restore_metric
from .classification import (
    Accuracy as Accuracy,
    AucPr as AucPr,
    Auroc as Auroc,
    ConfusionStats as ConfusionStats,
    FBetaScore as FBetaScore,
    Hamming as Hamming,
    Perplexity as Perplexity,
    Precision as Precision,
    Recall as Recall,
    TopKAccuracy as TopKAccuracy,
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
    DiceConfig as DiceConfig,
    FBetaScoreConfig as FBetaScoreConfig,
    HammingConfig as HammingConfig,
    IterationSpeedConfig as IterationSpeedConfig,
    LearningRateConfig as LearningRateConfig,
    LossConfig as LossConfig,
    MaeConfig as MaeConfig,
    MapeConfig as MapeConfig,
    MsSsimConfig as MsSsimConfig,
    PerplexityConfig as PerplexityConfig,
    PrecisionConfig as PrecisionConfig,
    PsnrConfig as PsnrConfig,
    R2Config as R2Config,
    RecallConfig as RecallConfig,
    RmseConfig as RmseConfig,
    RougeLConfig as RougeLConfig,
    RougeNConfig as RougeNConfig,
    SpanF1Config as SpanF1Config,
    SsimConfig as SsimConfig,
    TopKAccuracyConfig as TopKAccuracyConfig,
    WordErrorRateConfig as WordErrorRateConfig,
)
from .images import Dice as Dice, MsSsim as MsSsim, Psnr as Psnr, Ssim as Ssim
from .outputs import spans_of as spans_of
from .regression import R2 as R2, Mae as Mae, Mape as Mape, Rmse as Rmse
from .sequences import (
    Bleu as Bleu,
    CharErrorRate as CharErrorRate,
    RougeL as RougeL,
    RougeN as RougeN,
    SpanF1 as SpanF1,
    WordErrorRate as WordErrorRate,
)
from .system import (
    CpuMemory as CpuMemory,
    CpuUse as CpuUse,
    CudaMemory as CudaMemory,
    CudaUse as CudaUse,
    IterationSpeed as IterationSpeed,
    LearningRate as LearningRate,
    Loss as Loss,
)
