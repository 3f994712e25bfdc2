"""Schedules: each is one formula, or made of others, among them those by groups of parameters."""

import copy
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch import nn

from ...module import ParamGroup, params
from .configs import Reduction
from .learning_rates import ModuleLearningRate, check_groups
from .lr_scheduler import BEFORE_FIRST, AnyLrScheduler, LrScheduler, each_its_own


class ConstantLr(LrScheduler):
    """lr(i) = lr. It has no state."""

    burn_0_21 = (None, "unit")

    def __init__(self, lr: float) -> None:
        super().__init__()
        self.lr = lr

    def step(self) -> float:
        return self.lr


class LinearLr(LrScheduler):
    """lr(i) = final - (final - initial) / num_iters * (num_iters - i), and final from step num_iters on (linear.rs)."""

    fields: ClassVar[Mapping[str, str]] = {"remaining_iters": "u64"}
    burn_0_21 = ("Linear", "usize")

    def __init__(self, initial_lr: float, final_lr: float, num_iters: int) -> None:
        super().__init__(remaining_iters=num_iters + 1)
        self.num_iters = num_iters
        self.final_lr = final_lr
        self.step_size = (final_lr - initial_lr) / num_iters

    def step(self) -> float:
        remaining = self.state["remaining_iters"] = max(self.state["remaining_iters"] - 1, 0)
        return self.final_lr - self.step_size * remaining

    def to_record(self) -> dict[str, Any]:
        """The state with the length that it counts down from: a run that goes on with another one follows that."""
        return {**super().to_record(), "num_iters": self.num_iters}

    def adjusted(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        length, remaining = state.get("num_iters"), state.get("remaining_iters")
        if type(length) is not int or type(remaining) is not int:
            return state
        rest = {name: value for name, value in state.items() if name != "num_iters"}
        return {**rest, "remaining_iters": max(remaining + self.num_iters - length, 0)}


class CosineAnnealing(LrScheduler):
    """lr(i) = min + (initial - min) * (1 + cos(pi * i / num_iters)) / 2 for steps i = 0, 1, ... after the warm-up.

    Loshchilov & Hutter 2017, eq. 5. Past num_iters the rate goes up again, as in Burn 0.22.1 (cosine.rs); with
    `restart` it jumps back to initial_lr, as in Burn 0.21.0.
    """

    fields: ClassVar[Mapping[str, str]] = {"current_iter": "u64"}
    burn_0_21 = ("Cosine", "usize")

    def __init__(
        self, initial_lr: float, min_lr: float, num_iters: int, warmup_steps: int = 0, restart: bool = False
    ) -> None:
        super().__init__(current_iter=BEFORE_FIRST)
        self.initial_lr = initial_lr
        self.min_lr = min_lr
        self.num_iters = num_iters
        self.warmup_steps = warmup_steps
        self.restart = restart

    def step(self) -> float:
        # Burn's counter is unsigned, and its largest value stands for "before the first step": the sum wraps around to
        # 0.
        step = (self.state["current_iter"] + 1) % 2**64
        if self.restart and step > self.warmup_steps:
            step = self.warmup_steps + (step - self.warmup_steps) % (self.num_iters + 1)
        self.state["current_iter"] = step
        if step < self.warmup_steps:
            return self.initial_lr * (step + 1) / self.warmup_steps
        progress = (step - self.warmup_steps) / self.num_iters
        return self.min_lr + 0.5 * (self.initial_lr - self.min_lr) * (1.0 + math.cos(math.pi * progress))


class ExponentialLr(LrScheduler):
    """lr(i) = initial * gamma^i, each rate computed from the one before (exponential.rs)."""

    fields: ClassVar[Mapping[str, str]] = {"previous_lr": "f64"}
    burn_0_21 = ("Exponential", "f64")

    def __init__(self, initial_lr: float, gamma: float) -> None:
        # Divided, so that the first step gives initial_lr; Burn's records have this number, too.
        super().__init__(previous_lr=initial_lr / gamma)
        self.gamma = gamma

    def step(self) -> float:
        self.state["previous_lr"] *= self.gamma
        return self.state["previous_lr"]


class StepLr(LrScheduler):
    """lr(i) = initial * gamma^(i // step_size) (step.rs)."""

    fields: ClassVar[Mapping[str, str]] = {"iter_idx": "i64"}
    burn_0_21 = (None, "i32")

    def __init__(self, initial_lr: float, step_size: int, gamma: float) -> None:
        super().__init__(iter_idx=-1)
        self.initial_lr = initial_lr
        self.step_size = step_size
        self.gamma = gamma

    def step(self) -> float:
        self.state["iter_idx"] += 1
        return self.initial_lr * self.gamma ** (self.state["iter_idx"] // self.step_size)


class NoamLr(LrScheduler):
    """lr(n) = factor * model_size^-0.5 * min(n^-0.5, n * warmup_steps^-1.5) for steps n = 1, 2, ...

    It rises for warmup_steps steps, then falls with the root of the steps (Vaswani et al. 2017, eq. 3).
    """

    fields: ClassVar[Mapping[str, str]] = {"step": "f64"}
    burn_0_21 = ("Noam", "usize")

    def __init__(self, factor: float, warmup_steps: int, model_size: int) -> None:
        super().__init__(step=0.0)
        self.factor = factor
        self.warmup_steps = warmup_steps
        self.model_size = model_size

    def step(self) -> float:
        step = self.state["step"] = self.state["step"] + 1.0
        rate = min(step**-0.5, step * self.warmup_steps**-1.5)
        return self.factor * self.model_size**-0.5 * rate


class _Several(LrScheduler):
    schedulers: list[LrScheduler]

    @property
    def children(self) -> Sequence[LrScheduler]:
        return self.schedulers


class ComposedLr(_Several):
    """All schedules advance at every step; their rates are multiplied, added or averaged (composed.rs)."""

    burn_0_21 = (None, "schedulers")

    def __init__(self, schedulers: Sequence[LrScheduler], reduction: Reduction = "prod") -> None:
        super().__init__()
        self.schedulers = each_its_own(schedulers)
        self.reduction = reduction

    def step(self) -> float:
        rates = [scheduler.step() for scheduler in self.schedulers]
        if self.reduction == "prod":
            return math.prod(rates)
        return sum(rates) if self.reduction == "sum" else sum(rate / len(rates) for rate in rates)


class SequentialLr(_Several):
    """Schedule k runs from step milestones[k - 1] to milestones[k], the others stand still (sequential.rs)."""

    fields: ClassVar[Mapping[str, str]] = {"step": "u64"}

    def __init__(self, schedulers: Sequence[LrScheduler], milestones: Sequence[int]) -> None:
        super().__init__(step=0)
        self.schedulers = each_its_own(schedulers)
        self.milestones = list(milestones)

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
        # Of a copy: asking the scheduler itself would take its first step.
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

    Of several groups that accept a parameter the last one counts. Records have the place of a scheduler before its
    numbers, `"0."` for the base, as Burn 0.22's have (lr_scheduler/module.rs).
    """

    grouped: ClassVar[bool] = True

    def __init__(self, base: LrScheduler, groups: Sequence[tuple[ParamGroup, LrScheduler]] = ()) -> None:
        """Make it of the base and the schedules of groups; all are different objects."""
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
