"""The schedule in stairs."""

from collections.abc import Mapping
from typing import ClassVar

from .lr_scheduler import LrScheduler


class StepLr(LrScheduler):
    """lr(i) = initial * gamma^(i // step_size) (step.rs)."""

    fields: ClassVar[Mapping[str, str]] = {"iter_idx": "i64"}
    burn_0_21: ClassVar[tuple[str | None, str] | None] = (None, "i32")

    def __init__(self, initial_lr: float, step_size: int, gamma: float) -> None:
        super().__init__(iter_idx=-1)
        self.initial_lr = initial_lr
        self.step_size = step_size
        self.gamma = gamma

    def step(self) -> float:
        """Advance by one optimizer step and return its learning rate."""
        self.state["iter_idx"] += 1
        return self.initial_lr * self.gamma ** (self.state["iter_idx"] // self.step_size)
