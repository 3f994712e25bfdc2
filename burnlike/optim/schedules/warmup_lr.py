"""A linear warm-up before any schedule."""

import copy
from collections.abc import Mapping, Sequence
from typing import ClassVar

from .lr_scheduler import LrScheduler


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
        """The schedule."""
        return [self.scheduler]

    def step(self) -> float:
        """Advance by one optimizer step and return its learning rate."""
        step = self.state["step"]
        self.state["step"] += 1
        if step >= self.warmup_steps:
            return self.scheduler.step()
        if self.initial_lr is None:
            return self.first_lr * (step + 1) / self.warmup_steps
        return self.initial_lr + (self.first_lr - self.initial_lr) * step / self.warmup_steps
