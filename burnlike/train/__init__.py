"""Training: the config of a run, the Learner, checkpoints, metrics and progress."""

from typing import TYPE_CHECKING

from .._lazy import attach
from .config import OutputConfig, TrainConfig, TrainingConfig

if TYPE_CHECKING:
    from .bigram import bigram_loss
    from .checkpoint import Checkpointer
    from .interrupt import Interrupted, Interrupter
    from .job import Job, RunResult
    from .learner import Learner, LearningResult
    from .loss import Loss, LossFunction, next_token_loss
    from .metrics import MetricsLog
    from .progress import PlainRenderer, Renderer, RichRenderer, choose_renderer
    from .run_dir import RunDir
    from .sampling import sample
    from .state import TrainingState

_NAMES = {
    "bigram_loss": "bigram",
    "Checkpointer": "checkpoint",
    **dict.fromkeys(["Interrupted", "Interrupter"], "interrupt"),
    **dict.fromkeys(["Job", "RunResult"], "job"),
    **dict.fromkeys(["Learner", "LearningResult"], "learner"),
    **dict.fromkeys(["Loss", "LossFunction", "next_token_loss"], "loss"),
    "MetricsLog": "metrics",
    **dict.fromkeys(["Renderer", "PlainRenderer", "RichRenderer", "choose_renderer"], "progress"),
    "RunDir": "run_dir",
    "sample": "sampling",
    "TrainingState": "state",
}

__all__ = ["OutputConfig", "TrainConfig", "TrainingConfig", *_NAMES]  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__, __dir__ = attach(__name__, _NAMES)
