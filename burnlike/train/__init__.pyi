"""The public names of `burnlike.train`: each is imported from where it is defined, at its first use."""

from .checkpoint.checkpointer import Checkpointer as Checkpointer
from .checkpoint.strategies import (
    CheckpointingStrategy as CheckpointingStrategy,
    ComposedCheckpointingStrategy as ComposedCheckpointingStrategy,
    KeepLastNCheckpoints as KeepLastNCheckpoints,
    MetricCheckpointingStrategy as MetricCheckpointingStrategy,
)
from .job.configs import InitFromConfig as InitFromConfig, OutputConfig as OutputConfig, TrainConfig as TrainConfig
from .job.job import Job as Job, RunResult as RunResult
from .learner.configs import (
    BestMetricConfig as BestMetricConfig,
    EarlyStoppingConfig as EarlyStoppingConfig,
    EmaConfig as EmaConfig,
    TrainingConfig as TrainingConfig,
)
from .learner.early_stopping import MetricEarlyStoppingStrategy as MetricEarlyStoppingStrategy
from .learner.ema import Ema as Ema
from .learner.interrupt import Interrupted as Interrupted, Interrupter as Interrupter
from .learner.learner import Learner as Learner
from .learner.result import LearningResult as LearningResult
from .learner.steps import (
    LossFunction as LossFunction,
    StepOutput as StepOutput,
    TrainStep as TrainStep,
    ValidStep as ValidStep,
)
from .parallel.configs import (
    DdpConfig as DdpConfig,
    DistributedConfig as DistributedConfig,
    Fsdp2Config as Fsdp2Config,
    SingleProcessConfig as SingleProcessConfig,
)
from .parallel.ddp import Ddp as Ddp
from .parallel.distributed import SeveralProcesses as SeveralProcesses, make_parallel as make_parallel
from .parallel.fsdp2 import Fsdp2 as Fsdp2
from .parallel.single_process import SingleProcess as SingleProcess
from .runs.metrics_log import MetricsLog as MetricsLog
from .runs.run_dir import RunDir as RunDir
from .runs.run_files import RunFiles as RunFiles, find_runs as find_runs, read_run as read_run
from .state.training_state import TrainingState as TrainingState
from .tasks.classification import Classification as Classification
from .tasks.configs import (
    ClassificationConfig as ClassificationConfig,
    LanguageModelConfig as LanguageModelConfig,
    LoraFineTuningConfig as LoraFineTuningConfig,
    ModelLossConfig as ModelLossConfig,
    RegressionConfig as RegressionConfig,
    SegmentationConfig as SegmentationConfig,
)
from .tasks.fine_tuning import LoraFineTuning as LoraFineTuning
from .tasks.language_model import (
    LanguageModel as LanguageModel,
    bigram_loss as bigram_loss,
    next_token_loss as next_token_loss,
    sample as sample,
)
from .tasks.model_loss import ModelLoss as ModelLoss
from .tasks.regression import Regression as Regression
from .tasks.segmentation import Segmentation as Segmentation
from .tasks.task import Task as Task
from .view.callback import Callback as Callback
from .view.live import RichRenderer as RichRenderer
from .view.loggers.configs import (
    MLflowConfig as MLflowConfig,
    TensorBoardConfig as TensorBoardConfig,
    WandBConfig as WandBConfig,
)
from .view.loggers.logger import Logger as Logger
from .view.loggers.mlflow import MLflow as MLflow
from .view.loggers.tensorboard import TensorBoard as TensorBoard
from .view.loggers.wandb import WandB as WandB
from .view.renderers import (
    PlainRenderer as PlainRenderer,
    Renderer as Renderer,
    choose_renderer as choose_renderer,
)
from .view.run_log import RunLog as RunLog
from .view.summary import LearnerSummary as LearnerSummary
