"""Optimizers whose state follows parameters by id, gradients, clipping and learning rate schedules."""

from typing import TYPE_CHECKING

from .._lazy import attach
from . import configs
from .configs import *  # noqa: F403 - the configs load no torch, so they need not be lazy

if TYPE_CHECKING:
    from .adamw import AdamW, AdamWState, AdaptiveMomentumState
    from .adaptor import OptimizerAdaptor
    from .clipping import clip
    from .cosine_annealing import CosineAnnealing
    from .gradients import GradientsParams
    from .lr_scheduler import LrScheduler
    from .simple_optimizer import SimpleOptimizer

_NAMES = {
    **dict.fromkeys(["AdamW", "AdamWState", "AdaptiveMomentumState"], "adamw"),
    "OptimizerAdaptor": "adaptor",
    "clip": "clipping",
    "CosineAnnealing": "cosine_annealing",
    "GradientsParams": "gradients",
    "LrScheduler": "lr_scheduler",
    "SimpleOptimizer": "simple_optimizer",
}

__all__ = [*configs.__all__, *_NAMES]  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__, __dir__ = attach(__name__, _NAMES)
