"""The public names of `burnlike.optim`: each is imported from where it is defined, at its first use."""

from .core.state_dtype import StateDtype as StateDtype
from .gradients.clipping import clip as clip
from .gradients.clipping_config import (
    ClipByGlobalNorm as ClipByGlobalNorm,
    ClipByNorm as ClipByNorm,
    ClipByValue as ClipByValue,
    GradientClipping as GradientClipping,
)
from .gradients.gradients import GradientsParams as GradientsParams
from .gradients.gradients_accumulator import GradientsAccumulator as GradientsAccumulator
from .gradients.multi_gradients import MultiGradientsParams as MultiGradientsParams
from .lbfgs.lbfgs import Lbfgs as Lbfgs
from .lbfgs.lbfgs_config import LbfgsConfig as LbfgsConfig
from .lbfgs.state import LbfgsState as LbfgsState
from .optimizer import Optimizer as Optimizer
from .rules.adafactor import Adafactor as Adafactor, AdafactorState as AdafactorState
from .rules.adafactor_config import AdafactorConfig as AdafactorConfig
from .rules.adagrad import AdaGrad as AdaGrad, AdaGradState as AdaGradState, LrDecayState as LrDecayState
from .rules.adagrad_config import AdaGradConfig as AdaGradConfig
from .rules.adam import Adam as Adam, AdamState as AdamState
from .rules.adam_config import AdamConfig as AdamConfig
from .rules.adamw import AdamW as AdamW, AdamWState as AdamWState
from .rules.adamw_config import AdamWConfig as AdamWConfig
from .rules.adan import (
    Adan as Adan,
    AdanState as AdanState,
    AdaptiveNesterovMomentumState as AdaptiveNesterovMomentumState,
)
from .rules.adan_config import AdanConfig as AdanConfig
from .rules.adaptive_momentum import AdaptiveMomentumState as AdaptiveMomentumState
from .rules.foreach_optimizer import ForeachOptimizer as ForeachOptimizer
from .rules.lamb import Lamb as Lamb, LambState as LambState
from .rules.lamb_config import LambConfig as LambConfig
from .rules.lion import Lion as Lion, LionState as LionState
from .rules.lion_config import LionConfig as LionConfig
from .rules.module_optimizer_config import (
    ModuleOptimizerConfig as ModuleOptimizerConfig,
    OptimizerGroupConfig as OptimizerGroupConfig,
    OptimizerGroupsConfig as OptimizerGroupsConfig,
)
from .rules.momentum_config import MomentumConfig as MomentumConfig
from .rules.muon import Muon as Muon, MuonState as MuonState
from .rules.muon_config import MuonConfig as MuonConfig
from .rules.rmsprop import (
    CenteredState as CenteredState,
    RmsProp as RmsProp,
    RmsPropMomentumState as RmsPropMomentumState,
    RmsPropState as RmsPropState,
    SquareAvgState as SquareAvgState,
)
from .rules.rmsprop_config import RmsPropConfig as RmsPropConfig
from .rules.rule_set import OptimizerGroup as OptimizerGroup
from .rules.schedule_free_adamw import (
    ScheduleFreeAdamW as ScheduleFreeAdamW,
    ScheduleFreeAdamWState as ScheduleFreeAdamWState,
)
from .rules.schedule_free_adamw_config import ScheduleFreeAdamWConfig as ScheduleFreeAdamWConfig
from .rules.sgd import MomentumState as MomentumState, Sgd as Sgd, SgdState as SgdState
from .rules.sgd_config import SgdConfig as SgdConfig
from .rules.simple_optimizer import SimpleOptimizer as SimpleOptimizer
from .schedules.composed_lr import ComposedLr as ComposedLr
from .schedules.composed_lr_config import ComposedLrConfig as ComposedLrConfig
from .schedules.constant_lr import ConstantLr as ConstantLr
from .schedules.constant_lr_config import ConstantLrConfig as ConstantLrConfig
from .schedules.cosine_annealing import CosineAnnealing as CosineAnnealing
from .schedules.cosine_annealing_config import CosineAnnealingConfig as CosineAnnealingConfig
from .schedules.exponential_lr import ExponentialLr as ExponentialLr
from .schedules.exponential_lr_config import ExponentialLrConfig as ExponentialLrConfig
from .schedules.learning_rates import ModuleLearningRate as ModuleLearningRate
from .schedules.linear_lr import LinearLr as LinearLr
from .schedules.linear_lr_config import LinearLrConfig as LinearLrConfig
from .schedules.lr_scheduler import AnyLrScheduler as AnyLrScheduler, LrScheduler as LrScheduler
from .schedules.module_lr_scheduler import ModuleLrScheduler as ModuleLrScheduler
from .schedules.module_lr_scheduler_config import (
    LrGroupConfig as LrGroupConfig,
    ModuleLrSchedulerConfig as ModuleLrSchedulerConfig,
)
from .schedules.noam_lr import NoamLr as NoamLr
from .schedules.noam_lr_config import NoamLrConfig as NoamLrConfig
from .schedules.sequential_lr import SequentialLr as SequentialLr
from .schedules.sequential_lr_config import SequentialLrConfig as SequentialLrConfig
from .schedules.step_lr import StepLr as StepLr
from .schedules.step_lr_config import StepLrConfig as StepLrConfig
from .schedules.warmup_lr import WarmupLr as WarmupLr
from .schedules.warmup_lr_config import WarmupLrConfig as WarmupLrConfig
from .states.optimizer_report import OptimizerLoadReport as OptimizerLoadReport
from .states.torch_records import load_torch_record as load_torch_record, torch_record as torch_record
from .step.adaptor import OptimizerAdaptor as OptimizerAdaptor
