"""Schedules that are made of others, among them those by groups of parameters."""

import copy
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import ClassVar

from torch import nn

from ...module import ParamGroup, params
from .combined_configs import Reduction
from .learning_rates import ModuleLearningRate, check_groups
from .lr_scheduler import AnyLrScheduler, LrScheduler, each_its_own


class ComposedLr(LrScheduler):
    """All schedules advance at every step; their rates are multiplied, added or averaged (composed.rs)."""

    burn_0_21: ClassVar[tuple[str | None, str] | None] = (None, "schedulers")

    def __init__(self, schedulers: Sequence[LrScheduler], reduction: Reduction = "prod") -> None:
        super().__init__()
        self.schedulers = each_its_own(schedulers)
        self.reduction = reduction

    @property
    def children(self) -> Sequence[LrScheduler]:
        return self.schedulers

    def step(self) -> float:
        rates = [scheduler.step() for scheduler in self.schedulers]
        if self.reduction == "prod":
            return math.prod(rates)
        return sum(rates) if self.reduction == "sum" else sum(rate / len(rates) for rate in rates)


class SequentialLr(LrScheduler):
    """Schedule k runs from step milestones[k - 1] to milestones[k], the others stand still (sequential.rs)."""

    fields: ClassVar[Mapping[str, str]] = {"step": "u64"}

    def __init__(self, schedulers: Sequence[LrScheduler], milestones: Sequence[int]) -> None:
        super().__init__(step=0)
        self.schedulers = each_its_own(schedulers)
        self.milestones = list(milestones)

    @property
    def children(self) -> Sequence[LrScheduler]:
        return self.schedulers

    def step(self) -> float:
        current = bisect_right(self.milestones, self.state["step"])
        self.state["step"] += 1
        return self.schedulers[current].step()


class WarmupLr(LrScheduler):
    """lr(i) = initial + (first - initial) * i / warmup_steps for steps i < warmup_steps, then the schedule.

    The schedule stands still meanwhile; `first` is its first rate. Without an initial rate
    lr(i) = first * (i + 1) / warmup_steps, so that no step has the rate 0.
    """

    fields: ClassVar[Mapping[str, str]] = {"step": "u64"}

    def __init__(self, scheduler: LrScheduler, warmup_steps: int, initial_lr: float | None = None) -> None:
        super().__init__(step=0)
        self.scheduler = scheduler
        self.warmup_steps = warmup_steps
        self.initial_lr = initial_lr
        self.first_lr = copy.deepcopy(scheduler).step()

    @property
    def children(self) -> Sequence[LrScheduler]:
        return [self.scheduler]

    def step(self) -> float:
        step = self.state["step"]
        self.state["step"] += 1
        if step >= self.warmup_steps:
            return self.scheduler.step()
        if self.initial_lr is None:
            return self.first_lr * (step + 1) / self.warmup_steps
        return self.initial_lr + (self.first_lr - self.initial_lr) * step / self.warmup_steps


class ModuleLrScheduler(AnyLrScheduler[ModuleLearningRate]):
    """A schedule for the parameters in no group, and one for each group; all advance at every step.

    Records have the place of a scheduler before its numbers, `"0."` for the base, as Burn 0.22's have
    (lr_scheduler/module.rs).

    Attributes:
        base: the schedule of parameters in no group.
        groups: which parameters have one of their own; of several that accept a parameter the last one counts.
        schedulers: one for each group.
    """

    grouped: ClassVar[bool] = True

    def __init__(self, base: LrScheduler, groups: Sequence[tuple[ParamGroup, LrScheduler]] = ()) -> None:
        """Make it of the schedule of parameters in no group, and those of groups; all are different objects."""
        super().__init__()
        self.groups = tuple(group for group, _ in groups)
        self.base, *self.schedulers = each_its_own([base, *(scheduler for _, scheduler in groups)])

    @property
    def children(self) -> Sequence[LrScheduler]:
        return [self.base, *self.schedulers]

    def step(self) -> ModuleLearningRate:
        # The same groups each time: an optimizer then looks up only once which parameters they are.
        rates = tuple(scheduler.step() for scheduler in self.schedulers)
        return ModuleLearningRate(self.base.step(), self.groups, rates)

    def check(self, module: nn.Module) -> None:
        """Raise ConfigError if a group matches no parameter of `module`."""
        check_groups(self.groups, params(module, "weight"), "the learning rates")
