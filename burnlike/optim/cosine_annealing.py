"""The cosine schedule with a linear warm-up."""

import math
from collections.abc import Mapping
from typing import Self

from .lr_scheduler import LrScheduler, Number


class CosineAnnealing(LrScheduler):
    """lr(i) = min + (initial - min) * (1 + cos(pi * i / num_iters)) / 2 for steps i = 0, 1, ... after the warm-up.

    Loshchilov & Hutter 2017, eq. 5. Past num_iters the rate goes up again, as in Burn 0.22.1 (cosine.rs).
    """

    def __init__(self, initial_lr: float, min_lr: float, num_iters: int, warmup_steps: int = 0) -> None:
        self.initial_lr = initial_lr
        self.min_lr = min_lr
        self.num_iters = num_iters
        self.warmup_steps = warmup_steps
        self._steps = 0

    def step(self) -> float:
        """Advance by one optimizer step and return its learning rate."""
        step = self._steps
        self._steps += 1
        if step < self.warmup_steps:
            return self.initial_lr * (step + 1) / self.warmup_steps
        progress = (step - self.warmup_steps) / self.num_iters
        return self.min_lr + 0.5 * (self.initial_lr - self.min_lr) * (1.0 + math.cos(math.pi * progress))

    def to_record(self) -> dict[str, Number]:
        """The number of steps taken."""
        return {"steps": self._steps}

    def load_record(self, record: Mapping[str, Number]) -> Self:
        """Continue after the steps that `record` counts."""
        self._steps = int(record["steps"])
        return self
