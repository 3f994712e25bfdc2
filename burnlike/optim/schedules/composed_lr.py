"""Several schedules as one."""

import math
from collections.abc import Sequence
from typing import ClassVar

from .composed_lr_config import Reduction
from .lr_scheduler import LrScheduler, each_its_own


class ComposedLr(LrScheduler):
    """All schedules advance at every step; their rates are multiplied, added or averaged (composed.rs)."""

    burn_0_21: ClassVar[tuple[str | None, str] | None] = (None, "schedulers")

    def __init__(self, schedulers: Sequence[LrScheduler], reduction: Reduction = "prod") -> None:
        super().__init__()
        self.schedulers = each_its_own(schedulers)
        self.reduction = reduction

    @property
    def children(self) -> Sequence[LrScheduler]:
        """The schedules."""
        return self.schedulers

    def step(self) -> float:
        """Advance by one optimizer step and return its learning rate."""
        rates = [scheduler.step() for scheduler in self.schedulers]
        if self.reduction == "prod":
            return math.prod(rates)
        return sum(rates) if self.reduction == "sum" else sum(rate / len(rates) for rate in rates)
