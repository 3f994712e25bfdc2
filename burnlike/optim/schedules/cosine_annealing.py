"""The cosine schedule with a linear warm-up."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from .lr_scheduler import BEFORE_FIRST, LrScheduler


class CosineAnnealing(LrScheduler):
    """lr(i) = min + (initial - min) * (1 + cos(pi * i / num_iters)) / 2 for steps i = 0, 1, ... after the warm-up.

    Loshchilov & Hutter 2017, eq. 5. Past num_iters the rate goes up again, as in Burn 0.22.1 (cosine.rs); with
    `restart` it jumps back to initial_lr, as in Burn 0.21.0.
    """

    fields: ClassVar[Mapping[str, str]] = {"current_iter": "u64"}
    burn_0_21: ClassVar[tuple[str | None, str] | None] = ("Cosine", "usize")

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
        """Advance by one optimizer step and return its learning rate."""
        step = (self.state["current_iter"] + 1) % 2**64
        if self.restart and step > self.warmup_steps:
            step = self.warmup_steps + (step - self.warmup_steps) % (self.num_iters + 1)
        self.state["current_iter"] = step
        if step < self.warmup_steps:
            return self.initial_lr * (step + 1) / self.warmup_steps
        progress = (step - self.warmup_steps) / self.num_iters
        return self.min_lr + 0.5 * (self.initial_lr - self.min_lr) * (1.0 + math.cos(math.pi * progress))

    def upgraded(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """The state; burnlike's first checkpoints counted the steps taken, one more than `current_iter`."""
        if state.keys() == {"steps"} and type(state["steps"]) is int:
            return {"current_iter": (state["steps"] - 1) % 2**64}
        return state
