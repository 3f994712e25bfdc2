"""The configs of schedules. Imports no torch."""

import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Literal

from ..._lazy import resolve
from ...config import Config, LrSchedulerConfig, Meta
from ...config.bounds import Count, CountOrZero, NotNegative, Positive
from ...config.roles import Built
from ...errors import ConfigError
from ...module.groups.param_group import ParamGroup

if TYPE_CHECKING:
    from .schedules import (
        ComposedLr,
        ConstantLr,
        CosineAnnealing,
        ExponentialLr,
        LinearLr,
        ModuleLrScheduler,
        NoamLr,
        SequentialLr,
        StepLr,
        WarmupLr,
    )


class _FormulaConfig(LrSchedulerConfig[Built]):
    """Base of those whose schedule takes the fields as they are, and needs no length."""

    def init(self, num_iters: int | None = None) -> Built:
        return resolve(str(self.__builds__))(**{name: getattr(self, name) for name in self.__struct_fields__})


class ConstantLrConfig(_FormulaConfig["ConstantLr"], tag="ConstantLr", builds=".schedules"):
    """The same rate at every step.

    Attributes:
        lr: the rate.
    """

    lr: NotNegative


class LinearLrConfig(LrSchedulerConfig, tag="LinearLr"):
    """From initial_lr to final_lr in equal steps, then final_lr.

    Attributes:
        initial_lr: the first rate.
        final_lr: the last one.
        num_iters: steps from one to the other; None takes those of the run.
    """

    by_position = ("num_iters",)

    initial_lr: Annotated[float, Meta(gt=0, le=1)]
    final_lr: Annotated[float, Meta(ge=0, le=1)]
    num_iters: Count | None = None

    def init(self, num_iters: int | None = None) -> "LinearLr":
        from .schedules import LinearLr

        steps = self.num_iters or num_iters
        if steps is None or steps < 1:
            raise ConfigError(
                f"LinearLr: set num_iters, or give the steps of the run to init(num_iters), at least 1; got {num_iters}"
            )
        return LinearLr(self.initial_lr, self.final_lr, steps)


class CosineAnnealingConfig(LrSchedulerConfig, tag="CosineAnnealing"):
    """From initial_lr to min_lr along half a cosine (Loshchilov & Hutter 2017, eq. 5), after a linear warm-up.

    Attributes:
        initial_lr: the highest rate.
        min_lr: the rate after num_iters steps of the cosine.
        num_iters: steps of the cosine, the warm-up not counted; None takes what is left of the run.
        warmup_steps: steps in which the rate rises by equal parts to initial_lr.
        restart: go back to initial_lr after num_iters + 1 steps of the cosine, as in Burn 0.21.
    """

    by_position = ("num_iters",)

    initial_lr: Annotated[float, Meta(gt=0, le=1)]
    min_lr: NotNegative = 0.0
    num_iters: Count | None = None
    warmup_steps: CountOrZero = 0
    restart: bool = False

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.min_lr > self.initial_lr:
            yield "min_lr", f"expected at most initial_lr ({self.initial_lr}), got {self.min_lr}"

    def init(self, num_iters: int | None = None) -> "CosineAnnealing":
        from .schedules import CosineAnnealing

        cosine_steps = self.num_iters
        if cosine_steps is None:
            if num_iters is None:
                raise ConfigError("CosineAnnealing: set num_iters, or give the steps of the run to init(num_iters)")
            cosine_steps = num_iters - self.warmup_steps
            if cosine_steps < 1:
                raise ConfigError(
                    f"CosineAnnealing: warmup_steps ({self.warmup_steps}) leaves nothing of a run of {num_iters} steps"
                )
        return CosineAnnealing(self.initial_lr, self.min_lr, cosine_steps, self.warmup_steps, self.restart)


class ExponentialLrConfig(_FormulaConfig["ExponentialLr"], tag="ExponentialLr", builds=".schedules"):
    """Each rate is gamma times the one before.

    Attributes:
        initial_lr: the first rate.
        gamma: the factor.
    """

    initial_lr: Annotated[float, Meta(gt=0, le=1)]
    gamma: Annotated[float, Meta(gt=0, le=1)]


class StepLrConfig(_FormulaConfig["StepLr"], tag="StepLr", builds=".schedules"):
    """The rate is multiplied by gamma every step_size steps.

    Attributes:
        initial_lr: the first rate.
        step_size: steps that a rate is kept.
        gamma: the factor; above 1 the rate grows.
    """

    initial_lr: Positive
    step_size: Count
    gamma: Positive = 0.1


class NoamLrConfig(_FormulaConfig["NoamLr"], tag="NoamLr", builds=".schedules"):
    """A linear warm-up, then a fall with the root of the steps (Vaswani et al. 2017, eq. 3).

    Attributes:
        factor: scales all rates.
        warmup_steps: steps of the warm-up.
        model_size: width of the model; its root divides all rates.
    """

    factor: Annotated[float, Meta(gt=0, le=sys.float_info.max)]  # the roots of large sizes divide it
    warmup_steps: Count = 4000
    model_size: Count = 512


Reduction = Literal["prod", "sum", "avg"]


class LrGroupConfig(Config):
    """Parameters with a schedule of their own.

    Attributes:
        params: which they are.
        scheduler: their schedule.
    """

    params: ParamGroup
    scheduler: LrSchedulerConfig


class ModuleLrSchedulerConfig(LrSchedulerConfig, tag="ModuleLrScheduler"):
    """A schedule for the parameters in no group, and one for each group.

    Attributes:
        base: of parameters in no group; its rate is what a log of the training shows.
        groups: of several that match a parameter the last counts.
    """

    base: LrSchedulerConfig
    groups: tuple[LrGroupConfig, ...] = ()

    def validate(self) -> Iterable[tuple[str, str]]:
        yield from _refuse_groups("base", [self.base])
        for place, group in enumerate(self.groups):
            yield from _refuse_groups(f"groups.{place}.scheduler", [group.scheduler])

    def init(self, num_iters: int | None = None) -> "ModuleLrScheduler":
        from .schedules import ModuleLrScheduler

        groups = [(group.params, group.scheduler.init(num_iters)) for group in self.groups]
        return ModuleLrScheduler(self.base.init(num_iters), groups)


def _refuse_groups(path: str, configs: Sequence[LrSchedulerConfig]) -> Iterable[tuple[str, str]]:
    """Refuse schedules by group where one rate is wanted, for `validate`; `{}` in `path` is the place in a list."""
    for place, config in enumerate(configs):
        if isinstance(config, ModuleLrSchedulerConfig):
            yield path.format(place), "expected one schedule, got ModuleLrScheduler, which has to be the outermost"


class ComposedLrConfig(LrSchedulerConfig, tag="ComposedLr"):
    """The product, sum or average of the rates of several schedules that run side by side.

    Attributes:
        schedulers: one or more of any type.
        reduction: what is done with their rates.
    """

    schedulers: list[LrSchedulerConfig]
    reduction: Reduction = "prod"

    def validate(self) -> Iterable[tuple[str, str]]:
        if not self.schedulers:
            yield "schedulers", "expected at least one scheduler, got none"
        yield from _refuse_groups("schedulers.{}", self.schedulers)

    def init(self, num_iters: int | None = None) -> "ComposedLr":
        from .schedules import ComposedLr

        return ComposedLr([config.init(num_iters) for config in self.schedulers], self.reduction)


class SequentialLrConfig(LrSchedulerConfig, tag="SequentialLr"):
    """One schedule after another.

    Attributes:
        schedulers: one or more of any type.
        milestones: the steps, counted from 0, at which the second, third, ... schedule begins.
    """

    schedulers: list[LrSchedulerConfig]
    milestones: list[Count]

    def validate(self) -> Iterable[tuple[str, str]]:
        wanted = len(self.schedulers) - 1
        if not self.schedulers:
            yield "schedulers", "expected at least one scheduler, got none"
        elif len(self.milestones) != wanted:
            yield "milestones", f"expected {wanted}, one less than schedulers, got {len(self.milestones)}"
        yield from _refuse_groups("schedulers.{}", self.schedulers)
        if any(first >= second for first, second in pairwise(self.milestones)):
            yield "milestones", f"expected them to increase strictly, got {self.milestones}"

    def init(self, num_iters: int | None = None) -> "SequentialLr":
        """Make the schedules; one without a length of its own gets the steps between its milestones."""
        from .schedules import SequentialLr

        borders = [0, *self.milestones, num_iters]
        lengths = [None if end is None else end - begin for begin, end in pairwise(borders)]
        schedules = [config.init(length) for config, length in zip(self.schedulers, lengths, strict=True)]
        return SequentialLr(schedules, self.milestones)


class WarmupLrConfig(LrSchedulerConfig, tag="WarmupLr"):
    """From a small rate to the first one of a schedule in equal steps, then that schedule.

    Attributes:
        scheduler: of any type; one without a length of its own gets what the warm-up leaves of the run.
        warmup_steps: how long the rate rises.
        initial_lr: the first rate; None begins with the first of warmup_steps equal parts.
    """

    scheduler: LrSchedulerConfig
    warmup_steps: Count
    initial_lr: NotNegative | None = None

    def validate(self) -> Iterable[tuple[str, str]]:
        yield from _refuse_groups("scheduler", [self.scheduler])

    def init(self, num_iters: int | None = None) -> "WarmupLr":
        from .schedules import WarmupLr

        if num_iters is not None and num_iters <= self.warmup_steps:
            raise ConfigError(
                f"WarmupLr: warmup_steps ({self.warmup_steps}) leaves nothing of a run of {num_iters} steps"
            )
        left = None if num_iters is None else num_iters - self.warmup_steps
        return WarmupLr(self.scheduler.init(left), self.warmup_steps, self.initial_lr)
