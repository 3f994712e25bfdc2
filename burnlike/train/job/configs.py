"""TrainConfig: the root of a YAML file that `burnlike train` runs, and what of it a resumed run may change."""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal

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
from ...config.file_paths import FilePath, file_fields
from ...config.node import FromEnvironment
from ...config.registry import tag_of
from ...errors import CheckpointError, ConfigError, nearest
from ...module.groups.param_matchers import pattern_problem
from ...optim.lbfgs.configs import LbfgsConfig
from ..learner.configs import BEST, TrainingConfig
from ..metrics.configs import LearningRateConfig, LossConfig
from ..parallel.configs import DistributedConfig
from ..tasks.configs import AdversarialConfig, LanguageModelConfig
from .record_paths import record_problem

Patterns = tuple[Annotated[str, Meta(min_length=1)], ...]
_OTHER_VALUES = ("step", "epoch", "split", "loss", "lr", "time")
Weights = Literal["best", "last", "ema"]
_THREADS = at_most(1024, "more threads than a machine has CPUs make each step slower, or end the process")


class OutputConfig(Config):
    """The files that a run writes when it is done.

    Attributes:
        precision: of the floats in model.safetensors; checkpoints always keep the full one.
        weights: which these are, and those that the results are of: of the `best` validation (of `keep_best`), of the
            `last` step, or their average (`ema`). None: the best with `keep_best`, else the average where there is one.
    """

    precision: FloatName = "bfloat16"
    weights: Weights | None = None


class InitFromConfig(Config):
    """A record that a model starts from, such as a trained backbone below a new head.

    Patterns are regular expressions of Python's `re`, found anywhere in a path unless they are anchored by `^` and `$`.

    Attributes:
        path: of the record: a file, a checkpoint, the directory of a run (its result), or one of weights.
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
        init_from: a record that the model's parameters are read from, its path or more about it; None draws them, or
            reads those of a `Pretrained` model.
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
        if self.output.weights == "best" and self.training.keep_best is None:
            yield "output.weights", "expected training.keep_best, which says what the best is: {metric: loss}"
        if self.output.weights == "ema" and self.training.ema is None:
            yield "output.weights", "expected training.ema, which says what the average is: {decay: 0.999}"
        if isinstance(self.task, AdversarialConfig) and not self.distributed.is_single:
            yield "distributed", "expected a single process for Adversarial, whose networks take turns"
        yield from self._validate_metrics()
        if self.training.steps_per_epoch is not None:
            steps = self.training.epochs * self.training.steps_per_epoch
            yield from self.schedule_problems(steps, "training.epochs times training.steps_per_epoch")

    @property
    def final_weights(self) -> Weights:
        """Which weights a run writes at its end: `output.weights`, or what stands for it."""
        if self.output.weights is not None:
            return self.output.weights
        return "best" if self.training.keep_best is not None else "last" if self.training.ema is None else "ema"

    def file_problems(self) -> Iterable[tuple[str, str]]:
        source = self.init_from.path if isinstance(self.init_from, InitFromConfig) else self.init_from
        if source is not None and (problem := record_problem(source)):
            yield "init_from.path" if isinstance(self.init_from, InitFromConfig) else "init_from", problem

    def metric_names(self) -> list[str]:
        """What each metric is called in lines of metrics: its name, or its type as in `top_k_accuracy`."""
        return [it.name or re.sub(r"(?<!^)(?=[A-Z])", "_", tag_of(type(it)) or "").lower() for it in self.metrics]

    def init_metrics(self, classes: Sequence[str] | None) -> dict[str, Any]:
        """The metrics by their names, for data with these classes."""
        made = (it.for_classes(classes).init() for it in self.metrics)
        return dict(zip(self.metric_names(), made, strict=True))

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
                yield f"metrics.{place}", f"expected another name than '{name}', which one before it has; set `name`"
        for best in BEST:
            chosen = getattr(self.training, best)
            if chosen is None or chosen.metric == "loss":
                continue
            if chosen.metric not in names:
                known = nearest(chosen.metric, ["loss", *names])
                yield f"training.{best}.metric", f"there is no metric '{chosen.metric}' among `metrics`{known}"
            elif problem := chosen.contradiction(self.metrics[names.index(chosen.metric)].higher_is_better):
                yield f"training.{best}.direction", problem

    def schedule_problems(self, steps: int, reason: str) -> Iterable[tuple[str, str]]:
        """The paths of warm-ups that leave nothing of a run of so many steps, for this reason, and what is wrong."""
        for path, warmup in _warmups(self.lr_scheduler, "lr_scheduler"):
            if warmup >= steps:
                yield (
                    f"{path}.warmup_steps",
                    f"expected less than the {steps} steps of the run ({reason}), got {warmup}",
                )


def pattern_problems(patterns: Patterns, path: str) -> Iterable[tuple[str, str]]:
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


MAY_CHANGE = (
    "data.pattern",
    "device",
    "distributed",
    "loggers",
    "metrics",
    "output",
    "task.prompt",
    "task.sample_length",
    "task.temperature",
    "threads",
    "training.background_checkpoints",
    "training.checkpoint_every_epochs",
    "training.checkpoint_every_minutes",
    "training.checkpoint_every_steps",
    "training.epochs",
    "training.keep_checkpoints",
    "training.log_every_steps",
    "training.num_workers",
    "training.on_bad_item",
    "training.validation_steps",
)
"""Fields that a resumed run may have other values of, beside those that name files: files may have moved, and their
content is compared when they are read."""

_BATCHES = ("training.batch_size", "training.accumulation_steps")
"""Fields that make an optimizer step's number of items, with the number of processes."""


def check_resumable(before: TrainConfig, now: TrainConfig, run: str, said: Sequence[str] | None = None) -> list[str]:
    """The fields that the config to go on with may have and has otherwise, as text such as `training.epochs: 3 -> 5`.

    How many processes there were is not in a config. So where there may have been several, or are now, the data loader
    compares the items of a step, when it takes up the position of a checkpoint.

    Args:
        said: the paths that were set for this resume; a field that differs must be one of them or below one. None
            where a program made `now`.
    """
    changes = _changes(_plain(before), _plain(now), "")
    files = dict(file_fields(before)).keys() & dict(file_fields(now)).keys()
    # Batches may be of another size where a step still takes as many items, or may do so.
    items = [it.training.batch_size * it.training.accumulation_steps for it in (before, now)]
    is_single = before.distributed.is_single and now.distributed.is_single
    may_divide_otherwise = items[0] == items[1] or not is_single
    allowed = (*MAY_CHANGE, *files, *(_BATCHES if may_divide_otherwise else ()))
    refused = [text for path, text in changes if not any(f"{path}.".startswith(f"{it}.") for it in allowed)]
    if refused:
        raise CheckpointError(
            f"the run {run} was started with another config: {'; '.join(refused)}. Put the old values back to "
            "resume it, or leave out --resume to start a new run"
        )
    unsaid = [(path, text) for path, text in changes if said is not None and not _is_said(path, said)]
    if unsaid:
        raise CheckpointError(
            f"the run {run} has other values than the config: {'; '.join(text for _, text in unsaid)}. Say which to"
            f" go on with by --set {unsaid[0][0]}=VALUE, or leave the config's file out to go on with the run's own"
        )
    return [text for _, text in changes]


def _is_said(path: str, said: Sequence[str]) -> bool:
    return any(f"{path}.".startswith(f"{it}.") or it.startswith(f"{path}.") for it in said)


def _plain(config: TrainConfig) -> dict[str, Any]:
    """The config as plain data, with the directions that its metrics say."""
    metrics = dict(zip(config.metric_names(), config.metrics, strict=True))
    with suppress(ConfigError):  # of a metric that says none until it is made
        config = config.replace(training=config.training.directed(metrics))
    return config.to_dict()


def _changes(before: Any, now: Any, path: str) -> list[tuple[str, str]]:
    if isinstance(before, dict) and isinstance(now, dict):
        return [
            change
            for key in dict.fromkeys([*before, *now])
            for change in _changes(before.get(key), now.get(key), f"{path}.{key}" if path else key)
        ]
    return [] if before == now else [(path, f"{path}: {_show(before)} -> {_show(now)}")]


def _show(value: Any) -> str:
    if isinstance(value, FromEnvironment):
        return value.reference
    return "a mapping" if isinstance(value, dict) else "null" if value is None else str(value)
