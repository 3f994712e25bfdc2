"""The linear schedule."""

from collections.abc import Mapping
from typing import ClassVar

from .lr_scheduler import LrScheduler


class LinearLr(LrScheduler):
    """lr(i) = final - (final - initial) / num_iters * (num_iters - i), and final from step num_iters on (linear.rs)."""

    fields: ClassVar[Mapping[str, str]] = {"remaining_iters": "u64"}
    burn_0_21: ClassVar[tuple[str | None, str] | None] = ("Linear", "usize")

    def __init__(self, initial_lr: float, final_lr: float, num_iters: int) -> None:
        super().__init__(remaining_iters=num_iters + 1)
        self.final_lr = final_lr
        self.step_size = (final_lr - initial_lr) / num_iters

    def step(self) -> float:
        """Advance by one optimizer step and return its learning rate."""
        remaining = self.state["remaining_iters"] = max(self.state["remaining_iters"] - 1, 0)
        return self.final_lr - self.step_size * remaining
