"""The configs of schedules that are made of others. Imports no torch."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from ...config import Config, LrSchedulerConfig
from ...config.bounds import Count, NotNegative
from ...errors import ConfigError
from ...module.groups.param_group import ParamGroup

if TYPE_CHECKING:
    from .combined import ComposedLr, ModuleLrScheduler, SequentialLr, WarmupLr

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
        from .combined import ModuleLrScheduler

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
        from .combined import ComposedLr

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
        if not self.schedulers:
            yield "schedulers", "expected at least one scheduler, got none"
        elif len(self.milestones) != len(self.schedulers) - 1:
            yield (
                "milestones",
                f"expected {len(self.schedulers) - 1}, one less than schedulers, got {len(self.milestones)}",
            )
        yield from _refuse_groups("schedulers.{}", self.schedulers)
        if any(first >= second for first, second in pairwise(self.milestones)):
            yield "milestones", f"expected them to increase strictly, got {self.milestones}"

    def init(self, num_iters: int | None = None) -> "SequentialLr":
        """Make the schedules; one without a length of its own gets the steps between its milestones."""
        from .combined import SequentialLr

        borders = [0, *self.milestones, num_iters]
        lengths = [None if end is None else end - begin for begin, end in pairwise(borders)]
        made = [config.init(length) for config, length in zip(self.schedulers, lengths, strict=True)]
        return SequentialLr(made, self.milestones)


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
        from .combined import WarmupLr

        if num_iters is not None and num_iters <= self.warmup_steps:
            raise ConfigError(
                f"WarmupLr: warmup_steps ({self.warmup_steps}) leaves nothing of a run of {num_iters} steps"
            )
        left = None if num_iters is None else num_iters - self.warmup_steps
        return WarmupLr(self.scheduler.init(left), self.warmup_steps, self.initial_lr)
