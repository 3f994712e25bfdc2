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
    field,
)
from ...config.bounds import at_most
from ...config.file_paths import FilePath
from ...config.registry import tag_of
from ...errors import nearest
from ...module.groups.param_matchers import pattern_problem
from ...optim.lbfgs.configs import LbfgsConfig
from ..learner.configs import BEST, TrainingConfig
from ..metrics.configs import LearningRateConfig, LossConfig
from ..parallel.configs import DistributedConfig
from ..tasks.configs import LanguageModelConfig

Patterns = tuple[Annotated[str, Meta(min_length=1)], ...]
_OTHER_VALUES = ("step", "epoch", "split", "loss", "lr", "time")
_THREADS = at_most(1024, "more threads than a machine has CPUs make each step slower, or end the process")


class OutputConfig(Config):
    """The files that a run writes when it is done.

    Attributes:
        precision: of the floats in model.safetensors; checkpoints always keep the full one.
    """

    precision: FloatName = "bfloat16"


class InitFromConfig(Config):
    """A record that a model starts from, such as a trained backbone below a new head.

    Patterns are regular expressions of Python's `re`, found anywhere in a path unless they are anchored by `^` and `$`.

    Attributes:
        path: of the record.
        strict: whether it is an error if the record lacks a parameter of the model, or has one more. Parameters that it
            lacks keep what their initializers drew.
        rename: pattern in a name of the record -> what stands for it in the model's path, one after the other; `\\1` is
            the first group of the pattern.
        skip: patterns of the model's paths, and of names in the record, that are left out.
    """

    path: FilePath
    strict: bool = True
    rename: dict[str, str] = field(default_factory=dict)
    skip: Patterns = ()

    def validate(self) -> Iterable[tuple[str, str]]:
        yield from pattern_problems(self.skip, "skip")
        for pattern, replacement in self.rename.items():
            if message := pattern_problem(pattern, replacement):
                yield f"rename.{pattern}", message


class TrainConfig(Config):
    """Everything that a run is made of.

    Attributes:
        data: the dataset.
        transforms: what is made of it, one after the other.
        model: the module.
        init_from: a record that the model's parameters are read from, its path or more about it; None draws them.
        freeze: patterns, regular expressions found in the paths of parameters that are not trained.
        trainable: patterns of parameters that are trained: exceptions from `freeze`, or without it all that are.
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
    init_from: FilePath | InitFromConfig | None = None
    freeze: Patterns = ()
    trainable: Patterns = ()
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
        yield from pattern_problems(self.freeze, "freeze")
        yield from pattern_problems(self.trainable, "trainable")
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
            if name in _OTHER_VALUES:
                yield (
                    f"metrics.{place}.name",
                    f"'{name}' stands in each line of metrics.jsonl anyway; give another name",
                )
            if name in names[:place]:
                yield (
                    f"metrics.{place}",
                    f"expected another name than '{name}', which one before it has; set `name`",
                )
        for best in BEST:
            chosen = getattr(self.training, best)
            if chosen is None or chosen.metric == "loss":
                continue
            if chosen.metric not in names:
                known = nearest(chosen.metric, ["loss", *names])
                yield f"training.{best}.metric", f"there is no metric '{chosen.metric}' among `metrics`{known}"
            elif problem := chosen.contradiction(self.metrics[names.index(chosen.metric)].higher_is_better):
                yield f"training.{best}.direction", problem

    def _validate_schedule(self) -> Iterable[tuple[str, str]]:
        if self.training.steps_per_epoch is not None:
            steps = self.training.epochs * self.training.steps_per_epoch
            yield from self.schedule_problems(steps, "training.epochs times training.steps_per_epoch")

    def schedule_problems(self, steps: int, reason: str) -> Iterable[tuple[str, str]]:
        """The paths of warm-ups that leave nothing of a run, and what is wrong.

        Args:
            steps: of the run.
            reason: why it has so many.
        """
        for path, warmup in _warmups(self.lr_scheduler, "lr_scheduler"):
            if warmup >= steps:
                yield (
                    f"{path}.warmup_steps",
                    f"expected less than the {steps} steps of the run ({reason}), got {warmup}",
                )


def pattern_problems(patterns: Patterns, path: str) -> Iterable[tuple[str, str]]:
    """The paths of those that are no regular expressions, and what is wrong with each."""
    found = ((f"{path}.{place}", pattern_problem(pattern)) for place, pattern in enumerate(patterns))
    return (it for it in found if it[1])


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
