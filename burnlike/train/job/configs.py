"""TrainConfig: the root of a YAML file that `burnlike train` runs."""

import re
from collections.abc import Iterable
from typing import Annotated, Any

from ..._dtypes import FloatName
from ...config import (
    Config,
    DatasetConfig,
    LoggerConfig,
    LrSchedulerConfig,
    Meta,
    MetricConfig,
    ModuleConfig,
    OptimizerConfig,
    TaskConfig,
    TransformConfig,
)
from ...config.bounds import at_most
from ...config.file_paths import FilePath
from ...config.registry import tag_of
from ...errors import nearest
from ...optim.lbfgs.configs import LbfgsConfig
from ..learner.configs import DistributedConfig, TrainingConfig
from ..metrics.configs import LearningRateConfig, LossConfig
from ..tasks.configs import LanguageModelConfig

_THREADS = at_most(1024, "more threads than a machine has CPUs make each step slower, or end the process")


class OutputConfig(Config):
    """The files that a run writes when it is done.

    Attributes:
        precision: of the floats in model.safetensors; checkpoints always keep the full one.
    """

    precision: FloatName = "bfloat16"


class TrainConfig(Config):
    """Everything that a run is made of.

    Attributes:
        data: the dataset.
        transforms: what is made of it, one after the other.
        model: the module.
        init_from: a record that the model's parameters are read from; None draws them.
        task: what the model is trained for.
        metrics: computed of all predictions of a validation, by the names of their types in small letters.
        optimizer: what updates it.
        lr_scheduler: the learning rate of each step.
        training: length, batches, checkpoints.
        output: what is written at the end.
        loggers: where metrics are sent, beside the run's directory.
        distributed: how several processes train together.
        seed: of the initial parameters, their ids, the order of the data, dropout and the sample.
        device: `auto` (CUDA where there is one), `cpu`, `cuda` or `cuda:1` and so on.
        threads: CPU threads; None leaves it to torch.
    """

    data: DatasetConfig
    transforms: tuple[TransformConfig, ...] = ()
    model: ModuleConfig
    init_from: FilePath | None = None
    task: TaskConfig = LanguageModelConfig()
    metrics: tuple[MetricConfig, ...] = ()
    optimizer: OptimizerConfig
    lr_scheduler: LrSchedulerConfig
    training: TrainingConfig
    output: OutputConfig = OutputConfig()
    loggers: tuple[LoggerConfig, ...] = ()
    distributed: DistributedConfig = DistributedConfig()
    seed: Annotated[int, Meta(ge=0, lt=2**32)] = 1
    device: str = "auto"
    threads: Annotated[int, Meta(ge=1), _THREADS] | None = None

    def validate(self) -> Iterable[tuple[str, str]]:
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device):
            yield "device", f"expected auto, cpu, cuda or cuda:N, such as cuda:0; got '{self.device}'"
        vocab_size, wanted = (getattr(part, "vocab_size", None) for part in (self.model, self.data))
        if vocab_size is not None and wanted is not None and vocab_size != wanted:
            yield "model.vocab_size", f"expected {wanted}, the vocabulary of the data, got {vocab_size}"
        longest, context = getattr(self.model, "max_sequence_length", None), getattr(self.data, "context_length", None)
        if longest is not None and context is not None and longest < context:
            yield "model.max_sequence_length", f"expected at least {context}, data.context_length, got {longest}"
        if isinstance(self.optimizer, LbfgsConfig):
            yield (
                "optimizer",
                "expected an optimizer that takes one gradient a step, got Lbfgs, which evaluates the loss of one"
                " batch many times; it is for programs of one's own",
            )
        yield from self._validate_metrics()
        yield from self._validate_schedule()

    def metric_names(self) -> list[str]:
        """What each metric is called in lines of metrics: its name, or its type as in `top_k_accuracy`."""
        return [it.name or re.sub(r"(?<!^)(?=[A-Z])", "_", tag_of(type(it)) or "").lower() for it in self.metrics]

    def _validate_metrics(self) -> Iterable[tuple[str, str]]:
        names = self.metric_names()
        for place, (metric, name) in enumerate(zip(self.metrics, names, strict=True)):
            if isinstance(metric, LossConfig | LearningRateConfig):
                yield f"metrics.{place}", "expected another metric: each line has the loss and the learning rate anyway"
            if name in names[:place]:
                yield (
                    f"metrics.{place}",
                    f"expected another name than '{name}', which one before it has; set `name`",
                )
        for field in ("early_stopping", "keep_best"):
            chosen = getattr(self.training, field)
            if chosen is not None and chosen.metric not in ("loss", *names):
                known = nearest(chosen.metric, ["loss", *names])
                yield f"training.{field}.metric", f"there is no metric '{chosen.metric}' among `metrics`{known}"

    def _validate_schedule(self) -> Iterable[tuple[str, str]]:
        if self.training.steps_per_epoch is None:
            return
        steps = self.training.epochs * self.training.steps_per_epoch
        for path, warmup in _warmups(self.lr_scheduler, "lr_scheduler"):
            if warmup >= steps:
                yield (
                    f"{path}.warmup_steps",
                    f"expected less than the {steps} steps of the run (training.epochs times training.steps_per_epoch),"
                    f" got {warmup}",
                )


def _warmups(config: Any, path: str) -> Iterable[tuple[str, int]]:
    """The warm-ups that leave less of a run, by the paths of their schedules; others may be of any length."""
    inner = getattr(config, "scheduler", None)
    warmup = getattr(config, "warmup_steps", None)
    if warmup is not None and (inner is not None or getattr(config, "num_iters", 0) is None):
        yield path, warmup
    for name, below in (("scheduler", inner), ("base", getattr(config, "base", None))):
        if below is not None:
            yield from _warmups(below, f"{path}.{name}")
    for place, group in enumerate(getattr(config, "groups", ())):
        yield from _warmups(group, f"{path}.groups.{place}")
