"""The public names of `burnlike.optim`: each is imported from where it is defined, at its first use."""

from .gradients.clipping import clip as clip
from .gradients.configs import (
    ClipByGlobalNorm as ClipByGlobalNorm,
    ClipByNorm as ClipByNorm,
    ClipByValue as ClipByValue,
    GradientClipping as GradientClipping,
)
from .gradients.gradients import (
    GradientsAccumulator as GradientsAccumulator,
    GradientsParams as GradientsParams,
    MultiGradientsParams as MultiGradientsParams,
)
from .lbfgs.configs import LbfgsConfig as LbfgsConfig
from .lbfgs.lbfgs import Lbfgs as Lbfgs
from .lbfgs.state import LbfgsState as LbfgsState
from .optimizer import Optimizer as Optimizer
from .rules.adafactor import Adafactor as Adafactor, AdafactorState as AdafactorState
from .rules.adagrad import AdaGrad as AdaGrad, AdaGradState as AdaGradState, LrDecayState as LrDecayState
from .rules.adam import (
    Adam as Adam,
    AdamState as AdamState,
    AdamW as AdamW,
    AdamWState as AdamWState,
    AdaptiveMomentumState as AdaptiveMomentumState,
)
from .rules.adan import (
    Adan as Adan,
    AdanState as AdanState,
    AdaptiveNesterovMomentumState as AdaptiveNesterovMomentumState,
)
from .rules.config_base import (
    ModuleOptimizerConfig as ModuleOptimizerConfig,
    MomentumConfig as MomentumConfig,
    OptimizerGroupConfig as OptimizerGroupConfig,
    OptimizerGroupsConfig as OptimizerGroupsConfig,
    StateDtype as StateDtype,
)
from .rules.configs import (
    AdafactorConfig as AdafactorConfig,
    AdaGradConfig as AdaGradConfig,
    AdamConfig as AdamConfig,
    AdamWConfig as AdamWConfig,
    AdanConfig as AdanConfig,
    LambConfig as LambConfig,
    LionConfig as LionConfig,
    MuonConfig as MuonConfig,
    RmsPropConfig as RmsPropConfig,
    ScheduleFreeAdamWConfig as ScheduleFreeAdamWConfig,
    SgdConfig as SgdConfig,
)
from .rules.foreach_optimizer import ForeachOptimizer as ForeachOptimizer
from .rules.lamb import Lamb as Lamb, LambState as LambState
from .rules.lion import Lion as Lion, LionState as LionState
from .rules.muon import Muon as Muon, MuonState as MuonState
from .rules.rmsprop import (
    CenteredState as CenteredState,
    RmsProp as RmsProp,
    RmsPropMomentumState as RmsPropMomentumState,
    RmsPropState as RmsPropState,
    SquareAvgState as SquareAvgState,
)
from .rules.rule_set import OptimizerGroup as OptimizerGroup
from .rules.schedule_free_adamw import (
    ScheduleFreeAdamW as ScheduleFreeAdamW,
    ScheduleFreeAdamWState as ScheduleFreeAdamWState,
)
from .rules.sgd import MomentumState as MomentumState, Sgd as Sgd, SgdState as SgdState
from .rules.simple_optimizer import SimpleOptimizer as SimpleOptimizer
from .schedules.configs import (
    ComposedLrConfig as ComposedLrConfig,
    ConstantLrConfig as ConstantLrConfig,
    CosineAnnealingConfig as CosineAnnealingConfig,
    ExponentialLrConfig as ExponentialLrConfig,
    LinearLrConfig as LinearLrConfig,
    LrGroupConfig as LrGroupConfig,
    ModuleLrSchedulerConfig as ModuleLrSchedulerConfig,
    NoamLrConfig as NoamLrConfig,
    SequentialLrConfig as SequentialLrConfig,
    StepLrConfig as StepLrConfig,
    WarmupLrConfig as WarmupLrConfig,
)
from .schedules.learning_rates import ModuleLearningRate as ModuleLearningRate
from .schedules.lr_scheduler import AnyLrScheduler as AnyLrScheduler, LrScheduler as LrScheduler
from .schedules.schedules import (
    ComposedLr as ComposedLr,
    ConstantLr as ConstantLr,
    CosineAnnealing as CosineAnnealing,
    ExponentialLr as ExponentialLr,
    LinearLr as LinearLr,
    ModuleLrScheduler as ModuleLrScheduler,
    NoamLr as NoamLr,
    SequentialLr as SequentialLr,
    StepLr as StepLr,
    WarmupLr as WarmupLr,
)
from .states.matching import OptimizerLoadReport as OptimizerLoadReport
from .states.torch_records import load_torch_record as load_torch_record, torch_record as torch_record
from .step.adaptor import OptimizerAdaptor as OptimizerAdaptor
