"""The configs of optimizers and schedules, without torch: what a YAML file may name by `type:`."""

from .core.state_dtype import StateDtype
from .gradients.clipping_config import ClipByGlobalNorm, ClipByNorm, ClipByValue, GradientClipping
from .lbfgs.lbfgs_config import LbfgsConfig
from .rules.adafactor_config import AdafactorConfig
from .rules.adagrad_config import AdaGradConfig
from .rules.adam_config import AdamConfig
from .rules.adamw_config import AdamWConfig
from .rules.adan_config import AdanConfig
from .rules.lamb_config import LambConfig
from .rules.lion_config import LionConfig
from .rules.module_optimizer_config import ModuleOptimizerConfig, OptimizerGroupConfig, OptimizerGroupsConfig
from .rules.momentum_config import MomentumConfig
from .rules.muon_config import MuonConfig
from .rules.rmsprop_config import RmsPropConfig
from .rules.schedule_free_adamw_config import ScheduleFreeAdamWConfig
from .rules.sgd_config import SgdConfig
from .schedules.composed_lr_config import ComposedLrConfig
from .schedules.constant_lr_config import ConstantLrConfig
from .schedules.cosine_annealing_config import CosineAnnealingConfig
from .schedules.exponential_lr_config import ExponentialLrConfig
from .schedules.linear_lr_config import LinearLrConfig
from .schedules.module_lr_scheduler_config import LrGroupConfig, ModuleLrSchedulerConfig
from .schedules.noam_lr_config import NoamLrConfig
from .schedules.sequential_lr_config import SequentialLrConfig
from .schedules.step_lr_config import StepLrConfig
from .schedules.warmup_lr_config import WarmupLrConfig

__all__ = [
    "AdaGradConfig",
    "AdafactorConfig",
    "AdamConfig",
    "AdamWConfig",
    "AdanConfig",
    "ClipByGlobalNorm",
    "ClipByNorm",
    "ClipByValue",
    "ComposedLrConfig",
    "ConstantLrConfig",
    "CosineAnnealingConfig",
    "ExponentialLrConfig",
    "GradientClipping",
    "LambConfig",
    "LbfgsConfig",
    "LinearLrConfig",
    "LionConfig",
    "LrGroupConfig",
    "ModuleLrSchedulerConfig",
    "ModuleOptimizerConfig",
    "MomentumConfig",
    "MuonConfig",
    "NoamLrConfig",
    "OptimizerGroupConfig",
    "OptimizerGroupsConfig",
    "RmsPropConfig",
    "ScheduleFreeAdamWConfig",
    "SequentialLrConfig",
    "SgdConfig",
    "StateDtype",
    "StepLrConfig",
    "WarmupLrConfig",
]
