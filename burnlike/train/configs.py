"""TrainConfig: the root of a YAML file that `burnlike train` runs."""

import re
from collections.abc import Iterable
from typing import Annotated, Any

from .._dtypes import FloatName
from ..config import Config, DatasetConfig, LrSchedulerConfig, Meta, ModuleConfig, OptimizerConfig
from ..config.bounds import Count, NotNegative, at_most
from ..optim.lbfgs.configs import LbfgsConfig

_BATCH = at_most(2**20, "larger batches are made of several by training.accumulation_steps")
_SAMPLE = at_most(1_000_000, "each character is a pass through the model")
_THREADS = at_most(1024, "more threads than a machine has CPUs make each step slower, or end the process")


class TrainingConfig(Config):
    """The length and the steps of a training.

    Attributes:
        epochs: how many there are; each ends with a validation and a checkpoint.
        batch_size: items of a batch.
        accumulation_steps: batches whose gradients are accumulated for one optimizer step, as if they were one batch:
            each item, such as a token, has the same weight. An epoch's last step takes what is left.
        steps_per_epoch: optimizer steps of an epoch; None takes every item once.
        validation_steps: batches of the validation after each epoch; None takes all, as the one at the end always does.
        checkpoint_every_steps: also write a checkpoint every so many steps; None writes one an epoch.
        keep_checkpoints: how many of the last ones stay.
        log_every_steps: steps from one line of metrics to the next.
    """

    epochs: Count = 1
    batch_size: Annotated[int, Meta(ge=1), _BATCH]
    accumulation_steps: Count = 1
    steps_per_epoch: Count | None = None
    validation_steps: Count | None = None
    checkpoint_every_steps: Count | None = None
    keep_checkpoints: Count = 2
    log_every_steps: Count = 10

    def steps_of(self, batches: int) -> int:
        """Optimizer steps of an epoch of so many batches."""
        return -(-batches // self.accumulation_steps)


class OutputConfig(Config):
    """The files that a run writes when it is done.

    Attributes:
        precision: of the floats in model.safetensors; checkpoints always keep the full one.
        prompt: how the printed sample begins.
        sample_length: characters of the sample; 0 prints none.
        temperature: of the sampling; 0 always takes the likeliest character.
    """

    precision: FloatName = "bfloat16"
    prompt: Annotated[str, Meta(min_length=1)] = "\n"
    sample_length: Annotated[int, Meta(ge=0), _SAMPLE] = 400
    temperature: NotNegative = 0.8


class TrainConfig(Config):
    """Everything that a run is made of.

    Attributes:
        data: the dataset.
        model: the module.
        optimizer: what updates it.
        lr_scheduler: the learning rate of each step.
        training: length, batches, checkpoints.
        output: what is written at the end.
        seed: of the initial parameters, their ids, the order of the data, dropout and the sample.
        device: `auto` (CUDA where there is one), `cpu`, `cuda` or `cuda:1` and so on.
        threads: CPU threads; None leaves it to torch.
    """

    data: DatasetConfig
    model: ModuleConfig
    optimizer: OptimizerConfig
    lr_scheduler: LrSchedulerConfig
    training: TrainingConfig
    output: OutputConfig = OutputConfig()
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
        yield from self._validate_schedule()

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
