"""The public names of `burnlike.train`: each is imported from where it is defined, at its first use."""

from .bigram import bigram_loss as bigram_loss
from .checkpoint import Checkpointer as Checkpointer
from .configs import OutputConfig as OutputConfig, TrainConfig as TrainConfig, TrainingConfig as TrainingConfig
from .interrupt import Interrupted as Interrupted, Interrupter as Interrupter
from .job import Job as Job, RunResult as RunResult
from .learner import Learner as Learner, LearningResult as LearningResult
from .loss import Loss as Loss, LossFunction as LossFunction, next_token_loss as next_token_loss
from .metrics import MetricsLog as MetricsLog
from .progress import (
    PlainRenderer as PlainRenderer,
    Renderer as Renderer,
    RichRenderer as RichRenderer,
    choose_renderer as choose_renderer,
)
from .run_dir import RunDir as RunDir
from .sampling import sample as sample
from .state import TrainingState as TrainingState
