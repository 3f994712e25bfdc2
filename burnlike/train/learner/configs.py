"""TrainingConfig: how long a Learner trains, in what steps, and what it keeps."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from ...config import Config, Meta
from ...config.bounds import Count, NotNegative, Positive, at_most
from ...errors import ConfigError, nearest
from ..metrics.directions import Directions, directions_of, high_is_good, metric_of

_BATCH = at_most(2**20, "larger batches are made of several by training.accumulation_steps")

Direction = Literal["lowest", "highest"]
"""Which value of a metric is the best one."""

BEST = ("early_stopping", "keep_best")
"""The fields of a TrainingConfig that a metric decides."""

ComputePrecision = Literal["float32", "bfloat16", "float16", "int8_mixed"]


def _direction(higher_is_better: bool) -> Direction:
    return "highest" if higher_is_better else "lowest"


class EmaConfig(Config):
    """An exponential moving average of the weights, with which the model is validated and written at the end.

    average = decay * average + (1 - decay) * weights, after each step (Polyak & Juditsky 1992).

    Attributes:
        decay: share of the old average.
        warmup: begin with a smaller decay, min(decay, (1 + step) / (10 + step)), so that the first weights are soon
            forgotten.
    """

    decay: Annotated[float, Meta(ge=0, lt=1)] = 0.999
    warmup: bool = True


class BestMetricConfig(Config):
    """The value that says how good a model is.

    Attributes:
        metric: `loss`, or the name of a metric of the validation; of one with several values, such as those of several
            targets, also one of these: `mae.price`.
        direction: whether low or high values are good; None: as the metric says, and of the loss the lowest.
    """

    metric: Annotated[str, Meta(min_length=1)] = "loss"
    direction: Direction | None = None

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.metric == "loss" and self.direction == "highest":
            yield "direction", self.direction_problem(False)

    def direction_problem(self, higher_is_better: bool | None) -> str:
        """The problem of a direction that the metric says otherwise, or that nothing says; empty if there is none."""
        if higher_is_better is None and self.direction is None:
            return f"expected lowest or highest, as nothing says whether high values of {self.metric} are good"
        if higher_is_better is None or self.direction in (None, _direction(higher_is_better)):
            return ""
        right, good = ("highest", "high") if higher_is_better else ("lowest", "low")
        return (
            f"expected {right}, as {good} values of {self.metric} are good, got {self.direction}, which would keep the"
            " worst model; leave `direction` out"
        )

    def directed(self, higher_is_better: bool | None = None) -> Self:
        """The same with a direction, of the metric if it says one; a ConfigError if none says it or they differ."""
        higher = False if self.metric == "loss" else higher_is_better
        if problem := self.direction_problem(higher):
            raise ConfigError(f"direction: {problem}")
        return self if self.direction is not None else self.replace(direction=_direction(bool(higher)))


class EarlyStoppingConfig(BestMetricConfig):
    """Ends a training whose metric has not become better for some epochs.

    Attributes:
        n_epochs: epochs without improvement after which it ends.
        warmup_epochs: first epochs after which it never ends.
        min_delta: by how much a value must be better to count.
    """

    n_epochs: Count = 3
    warmup_epochs: Annotated[int, Meta(ge=0, lt=2**31)] = 0
    min_delta: NotNegative = 0.0


SAVED_OPS: Mapping[str, frozenset[str]] = {
    "mm": frozenset(
        ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::_scaled_mm", "burnlike::matrix_product")
    ),
    "sdpa": frozenset(
        f"aten::_scaled_dot_product_{kind}"
        for kind in ("flash_attention", "flash_attention_for_cpu", "efficient_attention", "cudnn_attention")
    )
    | frozenset(("aten::_scaled_dot_product_fused_attention_overrideable", "burnlike::attention")),
    "collectives": frozenset(
        f"_c10d_functional::{kind}"
        for kind in ("all_gather_into_tensor", "all_reduce", "all_to_all_single", "reduce_scatter_tensor")
    ),
}
"""Ops whose results activation checkpointing can keep, as torch calls them, by names for YAML."""


class CheckpointingConfig(Config):
    """Activations of a model's blocks that are computed again in the backward pass.

    Attributes:
        every: of the first block of so many; 1: of all.
        save: ops whose results are kept: `mm` (matrix products), `sdpa` (attention), `collectives` (what other
            processes sent), or ones of torch.ops, such as `aten.mm`. Everything else is computed again.
    """

    every: Count = 1
    # It hides the method that writes a config to a file, which a part of a training's config does not need.
    save: tuple[Annotated[str, Meta(min_length=1)], ...] = ()  # pyright: ignore[reportIncompatibleMethodOverride]

    def validate(self) -> Iterable[tuple[str, str]]:
        for place, name in enumerate(self.save):
            if name not in SAVED_OPS and not re.fullmatch(r"\w+\.\w+", name):
                expected = f"expected {', '.join(SAVED_OPS)}, or an op of torch.ops such as aten.mm"
                yield f"save.{place}", f"{expected}, got {name}{nearest(name, [*SAVED_OPS])}"


class Float8Config(Config):
    """Linear layers of the model's blocks that compute in 8 bits, by torchao; weights keep their type.

    Attributes:
        recipe: what shares a scale: `tensorwise`, a tensor; `rowwise`, a row; `rowwise_with_gw_hp`, a row, with the
            gradients of weights not in 8 bits.
        emulate: round in the same way and compute in the usual types, on any device, to try it.
    """

    recipe: Literal["tensorwise", "rowwise", "rowwise_with_gw_hp"] = "tensorwise"
    emulate: bool = False


class TrainingConfig(Config):
    """The length and the steps of a training.

    Attributes:
        epochs: how many there are; each ends with a validation.
        batch_size: items of a batch.
        accumulation_steps: batches whose gradients are accumulated for one optimizer step, as if they were one batch:
            each item, such as a token, has the same weight. An epoch's last step takes what is left.
        global_batch_size: items of an optimizer step, of all processes together, however many these are: they follow
            `batch_size` as the largest batch of one, and `accumulation_steps` from both. None: the items of a step are
            processes x batch_size x accumulation_steps.
        steps_per_epoch: optimizer steps of an epoch; None takes every item once.
        validation_steps: batches of the validation after each epoch, of all processes together, with
            `global_batch_size` each of so many items; None takes all, as the one at the end always does.
        drop_last: leave out the last batch of an epoch that takes every item once, if it is smaller.
        sampling: `all`: an epoch has every item once. `balanced`: it has as many items, each class equally often.
        num_workers: processes that read batches ahead; 0 reads them in the process that trains. The order of the items
            does not depend on it.
        on_bad_item: `raise`: an item that can't be read ends the training. `skip`: it is left out and counted.
        precision: float32 computes in the types of the weights; bfloat16 and float16 by autocast. float16 scales the
            loss, and skips steps whose gradients overflow. int8_mixed is bfloat16 but for the products of the blocks'
            linear layers in training steps, which are of numbers in 8 bits, on a CPU; see `ops.int8_linear`.
        float8: compute the products of the blocks' linear layers in 8 bits, on GPUs that can; None doesn't.
        compile: run the model through `torch.compile`.
        activation_checkpointing: compute the activations of the model's blocks again in the backward pass, which takes
            a third more time and much less memory. `true` or `full`: of all blocks; or a CheckpointingConfig, such as
            `{every: 2}` or `{save: [mm, sdpa]}`.
        ema: an average of the weights; None for none.
        early_stopping: when to end before `epochs`; None for never.
        checkpoint_every_steps: write a checkpoint every so many steps; None for none but those of epochs.
        checkpoint_every_epochs: write a checkpoint at the end of every so many epochs, and of the last; None:
            only of the last.
        checkpoint_every_minutes: write a checkpoint when so much time has gone since the last.
        keep_checkpoints: how many of the last ones stay.
        keep_best: also keep the checkpoint of the best validation; None doesn't.
        background_checkpoints: write them while the training goes on, from a copy in memory.
        log_every_steps: steps from one line of metrics to the next.
        train_metrics: whether metrics are also computed of the training batches, over each epoch.
    """

    epochs: Count = 1
    batch_size: Annotated[int, Meta(ge=1), _BATCH] = 32
    accumulation_steps: Count = 1
    global_batch_size: Count | None = None
    steps_per_epoch: Count | None = None
    validation_steps: Count | None = None
    drop_last: bool = False
    sampling: Literal["all", "balanced"] = "all"
    num_workers: Annotated[int, Meta(ge=0, le=256)] = 0
    on_bad_item: Literal["raise", "skip"] = "raise"
    precision: ComputePrecision = "float32"
    float8: Float8Config | None = None
    compile: bool = False
    activation_checkpointing: bool | Literal["full"] | CheckpointingConfig = False
    ema: EmaConfig | None = None
    early_stopping: EarlyStoppingConfig | None = None
    checkpoint_every_steps: Count | None = None
    checkpoint_every_epochs: Count | None = 1
    checkpoint_every_minutes: Positive | None = None
    keep_checkpoints: Count = 2
    keep_best: BestMetricConfig | None = None
    background_checkpoints: bool = True
    log_every_steps: Count = 10
    train_metrics: bool = False

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.precision == "int8_mixed" and self.float8 is not None:
            yield "float8", "expected none with precision: int8_mixed, which computes the same layers in 8 bits"
        if self.global_batch_size is not None and self.accumulation_steps > 1:
            yield "accumulation_steps", "follows from global_batch_size and batch_size; leave it out"
        warmup = 0 if self.early_stopping is None else self.early_stopping.warmup_epochs
        if warmup >= self.epochs:
            problem = f"expected less than the {self.epochs} epochs of the training, got {warmup}"
            yield "early_stopping.warmup_epochs", problem

    @property
    def checkpointing(self) -> CheckpointingConfig | None:
        """The config that `activation_checkpointing` stands for; None without it."""
        value = self.activation_checkpointing
        if isinstance(value, CheckpointingConfig):
            return value
        return CheckpointingConfig() if value else None

    @property
    def items_per_step(self) -> int:
        """Items of an optimizer step: of all processes with a global size, else of one."""
        return self.global_batch_size or self.batch_size * self.accumulation_steps

    def divided(self, processes: int) -> Self:
        """The config for this number of processes: with the fewest `accumulation_steps` for the global size with which
        no process has a larger batch than `batch_size`.
        """
        if (items := self.global_batch_size) is None:
            return self
        steps = next(it for it in range(1, items + 1) if items % it == 0 and items <= self.batch_size * it * processes)
        return self.replace(accumulation_steps=steps, global_batch_size=None)

    def batches_of(self, items: int) -> int:
        """Batches of an epoch that takes each item once, of a single process."""
        size = self.global_batch_size or self.batch_size
        return items // size if self.drop_last else -(-items // size)

    def steps_of(self, batches: int) -> int:
        return -(-batches // self.accumulation_steps)

    def directed(self, metrics: Mapping[str, Any]) -> Self:
        """The same with the directions of `keep_best` and `early_stopping`, as `higher_is_better` of metrics or their
        configs says; a ConfigError if one is the wrong one or nothing says it, or if there is no such metric.
        """
        completed: dict[str, Any] = {}
        for name in BEST:
            config: BestMetricConfig | None = getattr(self, name)
            if config is None:
                continue
            owner = metric_of(config.metric, metrics) or config.metric
            self.expect_metric(name, owner, ["loss", *metrics])
            try:
                completed[name] = config.directed(high_is_good(config.metric, directions_of(metrics)))
            except ConfigError as error:
                raise ConfigError(f"training.{name}.{error}") from error
        return self.replace(**completed)

    def directions(self, metrics: Mapping[str, Any]) -> Directions:
        """Directions of metrics, as they or their configs, `keep_best` and `early_stopping` say."""
        chosen = filter(None, (self.early_stopping, self.keep_best))
        return directions_of(metrics, [(config.metric, config.direction) for config in chosen])

    def expect_metric(self, name: str, wanted: str, available: Collection[str]) -> None:
        """Refuse a metric of `keep_best` or `early_stopping` that the validation lacks."""
        if wanted not in available:
            metric = getattr(self, name).metric
            raise ConfigError(
                f"training.{name}.metric: the validation has no '{metric}', it has {', '.join(available)}"
                f"{nearest(metric, [*available])}"
            )
