"""The public names of `burnlike.train.metrics`: each is imported from where it is defined, at its first use."""

from .accuracy import Accuracy as Accuracy, TopKAccuracy as TopKAccuracy
from .base import EpochMetric as EpochMetric
from .classification import (
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
    FBetaScoreConfig as FBetaScoreConfig,
    HammingConfig as HammingConfig,
    LearningRateConfig as LearningRateConfig,
    LossConfig as LossConfig,
    PerplexityConfig as PerplexityConfig,
    PrecisionConfig as PrecisionConfig,
    RecallConfig as RecallConfig,
    RougeLConfig as RougeLConfig,
    RougeNConfig as RougeNConfig,
    TopKAccuracyConfig as TopKAccuracyConfig,
    WordErrorRateConfig as WordErrorRateConfig,
)
from .confusion import ConfusionStats as ConfusionStats
from .curves import AucPr as AucPr, Auroc as Auroc
from .dice import Dice as Dice
from .error_rates import CharErrorRate as CharErrorRate, WordErrorRate as WordErrorRate
from .means import LearningRate as LearningRate, Loss as Loss
from .overlap import Bleu as Bleu, RougeL as RougeL, RougeN as RougeN
from .perplexity import Perplexity as Perplexity
from .psnr import Psnr as Psnr
from .ssim import MsSsim as MsSsim, Ssim as Ssim
from .states import metric_state as metric_state, restore_metric as restore_metric
from .system import (
    CpuMemory as CpuMemory,
    CpuUse as CpuUse,
    CudaMemory as CudaMemory,
    CudaUse as CudaUse,
    IterationSpeed as IterationSpeed,
)
from .system_configs import (
    CpuMemoryConfig as CpuMemoryConfig,
    CpuUseConfig as CpuUseConfig,
    CudaMemoryConfig as CudaMemoryConfig,
    CudaUseConfig as CudaUseConfig,
    IterationSpeedConfig as IterationSpeedConfig,
)
from .vision_configs import (
    DiceConfig as DiceConfig,
    MsSsimConfig as MsSsimConfig,
    PsnrConfig as PsnrConfig,
    SsimConfig as SsimConfig,
)
