"""The configs of optimizers and schedules, without torch: what a YAML file may name by `type:`."""

from .adamw_config import AdamWConfig
from .clipping_config import ClipByGlobalNorm, ClipByNorm, ClipByValue, GradientClipping
from .cosine_annealing_config import CosineAnnealingConfig

__all__ = [
    "AdamWConfig",
    "ClipByGlobalNorm",
    "ClipByNorm",
    "ClipByValue",
    "CosineAnnealingConfig",
    "GradientClipping",
]
