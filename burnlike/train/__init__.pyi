"""The public names of `burnlike.train`: each is imported from where it is defined, at its first use."""

from .checkpoint.checkpointer import (
    Checkpointer as Checkpointer,
    CheckpointingStrategy as CheckpointingStrategy,
    ComposedCheckpointingStrategy as ComposedCheckpointingStrategy,
    KeepLastNCheckpoints as KeepLastNCheckpoints,
    MetricCheckpointingStrategy as MetricCheckpointingStrategy,
)
from .job.configs import InitFromConfig as InitFromConfig, OutputConfig as OutputConfig, TrainConfig as TrainConfig
from .job.job import Job as Job, RunResult as RunResult
from .job.loaded_run import LoadedRun as LoadedRun, load_run as load_run
from .learner.configs import (
    BestMetricConfig as BestMetricConfig,
    CheckpointingConfig as CheckpointingConfig,
    EarlyStoppingConfig as EarlyStoppingConfig,
    EmaConfig as EmaConfig,
    Float8Config as Float8Config,
    TrainingConfig as TrainingConfig,
)
from .learner.fit_loop import LearningResult as LearningResult
from .learner.learner import Learner as Learner
from .learner.steps import (
    LossFunction as LossFunction,
    StepOutput as StepOutput,
    TrainStep as TrainStep,
    ValidStep as ValidStep,
)
from .learner.stopping import (
    Interrupted as Interrupted,
    Interrupter as Interrupter,
    MetricEarlyStoppingStrategy as MetricEarlyStoppingStrategy,
)
from .learner.updates import Ema as Ema
from .parallel.configs import (
    DdpConfig as DdpConfig,
    DistributedConfig as DistributedConfig,
    Fsdp2Config as Fsdp2Config,
    SingleProcessConfig as SingleProcessConfig,
)
from .parallel.distributed import SeveralProcesses as SeveralProcesses, make_parallel as make_parallel
from .parallel.single_process import SingleProcess as SingleProcess
from .parallel.strategies import Ddp as Ddp, Fsdp2 as Fsdp2
from .runs.logs import MetricsLog as MetricsLog
from .runs.run_dir import RunDir as RunDir
from .runs.run_files import RunFiles as RunFiles, find_runs as find_runs, read_run as read_run
from .state.training_state import TrainingState as TrainingState
from .tasks.configs import (
    AdversarialConfig as AdversarialConfig,
    ClassificationConfig as ClassificationConfig,
    DpoConfig as DpoConfig,
    KtoConfig as KtoConfig,
    LanguageModelConfig as LanguageModelConfig,
    LoraFineTuningConfig as LoraFineTuningConfig,
    MaskedLanguageModelConfig as MaskedLanguageModelConfig,
    ModelLossConfig as ModelLossConfig,
    NetworksConfig as NetworksConfig,
    OrpoConfig as OrpoConfig,
    RegressionConfig as RegressionConfig,
    RewardConfig as RewardConfig,
    SegmentationConfig as SegmentationConfig,
    SequenceToSequenceConfig as SequenceToSequenceConfig,
    SimPoConfig as SimPoConfig,
    TokenClassificationConfig as TokenClassificationConfig,
    VariationalAutoencoderConfig as VariationalAutoencoderConfig,
)
from .tasks.generative import (
    Adversarial as Adversarial,
    Networks as Networks,
    VariationalAutoencoder as VariationalAutoencoder,
)
from .tasks.grpo import Grpo as Grpo
from .tasks.grpo_configs import GrpoConfig as GrpoConfig, RewardFunctionConfig as RewardFunctionConfig
from .tasks.language_model import (
    LanguageModel as LanguageModel,
    bigram_loss as bigram_loss,
    next_token_loss as next_token_loss,
    sample as sample,
)
from .tasks.preferences import (
    Dpo as Dpo,
    Kto as Kto,
    Orpo as Orpo,
    Reward as Reward,
    SimPo as SimPo,
    rewards_of as rewards_of,
)
from .tasks.rewards import reward_function as reward_function
from .tasks.supervised import (
    Classification as Classification,
    ModelLoss as ModelLoss,
    Regression as Regression,
    Segmentation as Segmentation,
)
from .tasks.task import LoraFineTuning as LoraFineTuning, Task as Task
from .tasks.token_batches import own_parts as own_parts
from .tasks.tokens import (
    MaskedLanguageModel as MaskedLanguageModel,
    SequenceToSequence as SequenceToSequence,
    TokenClassification as TokenClassification,
)
from .view.callback import Callback as Callback, RunLog as RunLog
from .view.formats import LearnerSummary as LearnerSummary
from .view.live import RichRenderer as RichRenderer
from .view.logger_configs import (
    MLflowConfig as MLflowConfig,
    TensorBoardConfig as TensorBoardConfig,
    WandBConfig as WandBConfig,
)
from .view.loggers import Logger as Logger, MLflow as MLflow, TensorBoard as TensorBoard, WandB as WandB
from .view.renderers import PlainRenderer as PlainRenderer, Renderer as Renderer, choose_renderer as choose_renderer
