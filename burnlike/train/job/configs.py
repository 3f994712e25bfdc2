"""TrainConfig: the root of a YAML file that `burnlike train` runs."""

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar, Literal

from ..._dtypes import FloatName
from ..._patterns import pattern_problem
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
from ...config.registry import snake_tag, tag_of
from ...errors import ConfigError, nearest
from ...interop.parallel_words import undivided_heads
from ...optim.lbfgs.configs import LbfgsConfig
from ...optim.schedules.configs import CosineAnnealingConfig
from ..learner.configs import BEST, BestMetricConfig, TrainingConfig, metric_of
from ..metrics.configs import LearningRateConfig, LossConfig
from ..parallel.configs import (
    CONTEXT_IN_FLOAT8,
    IN_INT8,
    REDUCED_ON_CPU,
    DistributedConfig,
    context_problems,
    expert_problems,
    pipeline_problems,
    quantized_problems,
)
from ..runs.run_dir import record_problem
from ..tasks.configs import (
    PREFERENCES,
    AdversarialConfig,
    DpoConfig,
    KtoConfig,
    LanguageModelConfig,
    RegressionConfig,
    RewardConfig,
    task_within,
)
from ..tasks.grpo_configs import GrpoConfig

Patterns = tuple[Annotated[str, Meta(min_length=1)], ...]
_RATES = {"Sgd": 1e-2, "AdaGrad": 1e-2, "Muon": 1e-2, "Lion": 1e-4}
"""The highest learning rates of the default schedule, where 1e-3 does not suit the optimizer."""
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
        path: of the record: a file, a checkpoint, the directory of a run (its result; of Burn's Learner its last
            checkpoint), or one of weights.
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


class CheckpointConfig(Config):
    """The place of a run's checkpoints beside its directory.

    Attributes:
        gather: of processes on machines without a common file system: rank 0 gets the parts of all and writes them, and
            sends them when a run goes on.
        mirror: a place that has a copy of the run's checkpoints, such as `s3://bucket/path`: a directory for each run
            is made there. A run goes on from it where its own directory has nothing. None for none.
    """

    gather: bool = False
    mirror: Annotated[str, Meta(min_length=1)] | None = None

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.mirror is not None and self.mirror.endswith("://"):
            yield "mirror", f"expected a place such as s3://bucket/path, got {self.mirror}"


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
        lr_scheduler: the learning rate of each step; None: half a cosine to 0, after a warm-up of a twentieth of the
            run and at most 100 steps, from 1e-3 (Sgd, AdaGrad and Muon 1e-2, Lion 1e-4).
        training: length, batches, checkpoints.
        output: what is written at the end.
        loggers: where metrics are sent, beside the run's directory.
        checkpoint: where checkpoints go, beside the run's directory.
        distributed: how several processes train together.
        seed: of the initial parameters, their ids, the order of the data, dropout and the sample.
        device: `auto` (CUDA where there is one), `cpu`, `cuda` or `cuda:1` and so on.
        threads: CPU threads; None leaves it to torch.
    """

    examples: ClassVar[dict[str, str]] = {
        "model": "write `model: {type: Mlp, sizes: [4, 32, 2]}`, or `model: {from: net.yaml}` for a model in a file of"
        " its own; `burnlike schema --list` lists the types",
        "data": "write `data: {type: Csv, path: people.csv, target: COLUMN}`; for photos the type is ImageFolder, for"
        " texts TextClassification; `burnlike schema --list` lists the types",
        "optimizer": "write `optimizer: {type: AdamW}`",
        "lr_scheduler": "write `lr_scheduler: {type: CosineAnnealing, initial_lr: 1e-3}`",
        "training": "write `training: {epochs: 10, batch_size: 32}`",
    }
    """For each field that has to be there, a value to begin with."""

    data: DatasetConfig
    transforms: tuple[TransformConfig, ...] = ()
    model: ModuleConfig
    init_from: FilePath | InitFromConfig | None = None
    freeze: Patterns = ()
    trainable: Patterns = ()
    task: TaskConfig = LanguageModelConfig()
    metrics: tuple[MetricConfig, ...] = ()
    optimizer: OptimizerConfig
    lr_scheduler: LrSchedulerConfig | None = None
    training: TrainingConfig
    output: OutputConfig = OutputConfig()
    loggers: tuple[LoggerConfig, ...] = ()
    checkpoint: CheckpointConfig = CheckpointConfig()
    distributed: DistributedConfig = DistributedConfig()
    seed: Annotated[int, Meta(ge=0, lt=2**32)] = 1
    device: str = "auto"
    threads: Annotated[int, Meta(ge=1), _THREADS] | None = None

    def validate(self) -> Iterable[tuple[str, str]]:
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device):
            yield "device", f"expected auto, cpu, cuda or cuda:N, such as cuda:0; got '{self.device}'"
        yield from pattern_problems(self.freeze, "freeze")
        yield from pattern_problems(self.trainable, "trainable")
        grown = getattr(self.model, "with_new_tokens", self.model)  # names of tokens get their numbers by the data
        vocab_size, wanted = (getattr(part, "vocab_size", None) for part in (grown, self.data))
        if vocab_size is not None and wanted is not None and vocab_size != wanted:
            yield "model.vocab_size", f"expected {wanted}, the vocabulary of the data, got {vocab_size}"
        longest, context = getattr(self.model, "max_sequence_length", None), getattr(self.data, "context_length", None)
        if longest is not None and context is not None and longest < context:
            yield "model.max_sequence_length", f"expected at least {context}, data.context_length, got {longest}"
        task = task_within(self.task)
        if getattr(self.data, "standardize_targets", False) and not isinstance(task, RegressionConfig):
            yield "data.standardize_targets", "expected `task: Regression`, whose loss is of standardized numbers"
        if isinstance(self.optimizer, LbfgsConfig):
            expected = "expected an optimizer that takes one gradient a step"
            reason = "which evaluates the loss of one batch many times; it is for programs of one's own"
            yield "optimizer", f"{expected}, got Lbfgs, {reason}"
        if self.output.weights == "best" and self.training.keep_best is None:
            yield "output.weights", "expected training.keep_best, which says what the best is: {metric: loss}"
        if self.output.weights == "ema" and self.training.ema is None:
            yield "output.weights", "expected training.ema, which says what the average is: {decay: 0.999}"
        yield from self._preference_problems()
        if isinstance(task, GrpoConfig):
            yield from self._grpo_problems(task)
        model: Any = self.model
        eva, takes_part = getattr(model, "eva", None), getattr(model, "takes_part_of_weights", False)
        if eva is not None and isinstance(task, (*PREFERENCES, GrpoConfig)):
            yield "model.start", f"expected another than eva for {tag_of(type(task))}, which runs a model several times"
        if eva is not None or takes_part:
            if not {*self.distributed.kinds} <= {"none", "ddp"}:
                start = "eva" if takes_part is False else model.start
                yield "model.start", f"expected default where processes share a model, got {start}"
            if takes_part and isinstance(self.init_from, InitFromConfig):
                yield "init_from", f"expected a path alone: {model.start} begins with weights of the same names"
        shares = self.distributed.tensor > 1 or self.distributed.context > 1
        if shares and getattr(task, "neftune", 0.0):
            yield "task.neftune", "expected 0 where processes share layers or sequences, whose noise would differ"
        yield from self._process_problems()
        yield from self._validate_metrics()
        if self.training.steps_per_epoch is not None:
            steps = self.training.epochs * self.training.steps_per_epoch
            yield from self.schedule_problems(steps, "training.epochs times training.steps_per_epoch")

    def _process_problems(self) -> Iterable[tuple[str, str]]:
        """Parts of the job that processes can't train together, or not in this precision."""
        if isinstance(self.task, AdversarialConfig) and not self.distributed.is_single:
            yield "distributed", "expected a single process for Adversarial, whose networks take turns"
        if self.distributed.pipeline > 1:
            yield from pipeline_problems(self.training.precision, compiles=self.training.compile)
            count, most = self.distributed.microbatches, self.training.batch_size
            if count is not None and count > most:
                yield "distributed.microbatches", f"expected at most training.batch_size, {most} items, got {count}"
        if not self.distributed.plan:  # which may leave attention whole
            yield from undivided_heads(self.model, self.distributed.tensor, "model")
        if self.training.precision == "int8_mixed":
            if not self.distributed.is_single:
                yield "training.precision", IN_INT8
            if self.device.startswith("cuda"):
                yield "training.precision", "expected bfloat16 or float16 on CUDA, int8_mixed computes on a CPU"
        if not self.distributed.is_single:
            yield from quantized_problems(self.model, self.distributed)
        precision = self.distributed.precision
        if self.distributed.name == "ddp" and self.device == "cpu" and precision and precision.reduce == "bfloat16":
            yield "distributed.precision.reduce", REDUCED_ON_CPU
        if self.distributed.context > 1:
            yield from context_problems(self.model, self.task)
            if self.training.float8 is not None:
                yield "training.float8", CONTEXT_IN_FLOAT8
        if self.distributed.expert > 1:
            yield from expert_problems(self.model, self.distributed.expert)

    def _grpo_problems(self, task: GrpoConfig) -> Iterable[tuple[str, str]]:
        parts = max(getattr(self.distributed, name) for name in ("pipeline", "context", "tensor", "expert"))
        if parts > 1 or not (self.distributed.is_single or self.distributed.name == "ddp"):
            problem = "expected a single process, or ddp, for Grpo: a model that is divided writes no answers"
            yield "distributed", problem
        if task is self.task and task.beta and tag_of(type(self.model)) in ("Pretrained", "DecoderLm"):
            yield "model", "expected `type: LoRA` around it for task.beta: the reference is the model without adapters"
        if task.updates > 1 and self.training.accumulation_steps > 1:
            yield "training.accumulation_steps", "expected 1 with task.updates above 1: take a larger batch_size"

    def _preference_problems(self) -> Iterable[tuple[str, str]]:
        task = task_within(self.task)
        if not isinstance(task, PREFERENCES):
            return
        if self.distributed.pipeline > 1:
            yield "distributed.pipeline", "expected 1 for a task of preferences, whose losses need whole answers"
        if getattr(self.data, "packing", False) and isinstance(task, KtoConfig | RewardConfig):
            yield "data.packing", f"expected false for {tag_of(type(task))}, which needs each conversation in a row"
        if isinstance(task, KtoConfig) and task.loss == "kto":
            if not self.distributed.is_single:
                yield "distributed", "expected a single process for the loss kto, whose divergence is of a whole batch"
            if self.training.batch_size < 2:
                yield "training.batch_size", "expected at least 2 for Kto, which puts answers behind other prompts"
        if not isinstance(task, DpoConfig | KtoConfig):
            return
        if task.reference == "kept":
            if not self.distributed.is_single:
                yield "task.reference", "expected computed, or a single process, which computes what is kept"
            if self.transforms:
                yield "task.reference", "expected computed where data is changed by `transforms`"
        elif task is self.task and tag_of(type(self.model)) in ("Pretrained", "DecoderLm"):
            yield (
                "model",
                f"expected `type: LoRA` around it for {tag_of(type(task))}: the reference is the model with its"
                " adapters off. Set task.reference: kept to train the whole model; Orpo and SimPo have no reference",
            )

    def schedule(self, steps: int, items: int = 0) -> LrSchedulerConfig:
        """The learning rates of a run of so many steps: `lr_scheduler`, or its default.

        A ConfigError if a warm-up is as long as the run, whose epochs have so many items.
        """
        for path, message in self.schedule_problems(steps, f"training.epochs times the batches of {items} items"):
            raise ConfigError(f"{path}: {message}")
        rate = _RATES.get(tag_of(type(self.optimizer)) or "", 1e-3)
        return self.lr_scheduler or CosineAnnealingConfig(initial_lr=rate, warmup_steps=min(100, steps // 20))

    @property
    def final_weights(self) -> Weights:
        """Kind of the weights that a run writes at its end: `output.weights`, or its default."""
        if self.output.weights is not None:
            return self.output.weights
        return "best" if self.training.keep_best is not None else "last" if self.training.ema is None else "ema"

    def file_problems(self) -> Iterable[tuple[str, str]]:
        source = self.init_from.path if isinstance(self.init_from, InitFromConfig) else self.init_from
        if source is not None and (problem := record_problem(source)):
            yield "init_from.path" if isinstance(self.init_from, InitFromConfig) else "init_from", problem

    def metric_names(self) -> list[str]:
        """Name of each metric in lines of metrics: its `name`, or its type as in `top_k_accuracy`."""
        return [metric.name or snake_tag(type(metric)) for metric in self.metrics]

    def directed(self) -> TrainingConfig:
        """The training with the directions that its metrics say."""
        return self.training.directed(dict(zip(self.metric_names(), self.metrics, strict=True)))

    @property
    def best_metric(self) -> BestMetricConfig:
        """The value that says how good a model is, with its direction: of `keep_best`, or else the loss."""
        return self.directed().keep_best or BestMetricConfig().directed()

    def init_metrics(self, classes: Sequence[str] | None) -> dict[str, Any]:
        """The metrics by their names, for data with these classes, or targets that are numbers."""
        metrics = (metric.for_classes(classes).init() for metric in self.metrics)
        return dict(zip(self.metric_names(), metrics, strict=True))

    def _validate_metrics(self) -> Iterable[tuple[str, str]]:
        names = self.metric_names()
        for place, (metric, name) in enumerate(zip(self.metrics, names, strict=True)):
            if isinstance(metric, LossConfig | LearningRateConfig):
                yield f"metrics.{place}", "expected another metric: each line has the loss and the learning rate anyway"
            if name in _OTHER_VALUES:
                problem = f"'{name}' stands in each line of metrics.jsonl anyway; give another name"
                yield f"metrics.{place}.name", problem
            if name in names[:place]:
                yield f"metrics.{place}", f"expected another name than '{name}', which one before it has; set `name`"
        for best in BEST:
            chosen = getattr(self.training, best)
            if chosen is None or chosen.metric == "loss":
                continue
            if (owner := metric_of(chosen.metric, names)) is None:
                available = ["loss", *names]
                has = f"the validation has {', '.join(available)}{nearest(chosen.metric, available)}"
                yield f"training.{best}.metric", f"there is no metric '{chosen.metric}' among `metrics`; {has}"
            elif problem := chosen.direction_problem(self.metrics[names.index(owner)].higher_is_better):
                yield f"training.{best}.direction", problem

    def schedule_problems(self, steps: int, reason: str) -> Iterable[tuple[str, str]]:
        """The paths of warm-ups that are as long as a run of `steps` steps, and what is wrong; `reason` explains the
        number.
        """
        for path, warmup in _warmups(self.lr_scheduler, "lr_scheduler"):
            if warmup >= steps:
                problem = f"expected less than the {steps} steps of the run ({reason}), got {warmup}"
                yield f"{path}.warmup_steps", problem


def pattern_problems(patterns: Patterns, path: str) -> Iterable[tuple[str, str]]:
    messages = ((f"{path}.{place}", pattern_problem(pattern)) for place, pattern in enumerate(patterns))
    return (message for message in messages if message[1])


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
