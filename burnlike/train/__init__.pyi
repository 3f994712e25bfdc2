"""The public names of `burnlike.train`: each is imported from where it is defined, at its first use."""

from .checkpoint.checkpointer import Checkpointer as Checkpointer
from .job.configs import OutputConfig as OutputConfig, TrainConfig as TrainConfig
from .job.job import Job as Job, RunResult as RunResult
from .learner.configs import TrainingConfig as TrainingConfig
from .learner.interrupt import Interrupted as Interrupted, Interrupter as Interrupter
from .learner.learner import Learner as Learner, LearningResult as LearningResult
from .learner.loss import Loss as Loss, LossFunction as LossFunction
from .runs.metrics_log import MetricsLog as MetricsLog
from .runs.run_dir import RunDir as RunDir
from .state.training_state import TrainingState as TrainingState
from .tasks.language_model.bigram import bigram_loss as bigram_loss
from .tasks.language_model.next_token import next_token_loss as next_token_loss
from .tasks.language_model.sampling import sample as sample
from .view.renderers import (
    PlainRenderer as PlainRenderer,
    Renderer as Renderer,
    RichRenderer as RichRenderer,
    choose_renderer as choose_renderer,
)
