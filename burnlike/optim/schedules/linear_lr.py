"""The linear schedule."""

from collections.abc import Mapping
from typing import Any, ClassVar

from .lr_scheduler import LrScheduler


class LinearLr(LrScheduler):
    """lr(i) = final - (final - initial) / num_iters * (num_iters - i), and final from step num_iters on (linear.rs)."""

    fields: ClassVar[Mapping[str, str]] = {"remaining_iters": "u64"}
    burn_0_21: ClassVar[tuple[str | None, str] | None] = ("Linear", "usize")

    def __init__(self, initial_lr: float, final_lr: float, num_iters: int) -> None:
        super().__init__(remaining_iters=num_iters + 1)
        self.num_iters = num_iters
        self.final_lr = final_lr
        self.step_size = (final_lr - initial_lr) / num_iters

    def step(self) -> float:
        """Advance by one optimizer step and return its learning rate."""
        remaining = self.state["remaining_iters"] = max(self.state["remaining_iters"] - 1, 0)
        return self.final_lr - self.step_size * remaining

    def to_record(self) -> dict[str, Any]:
        """The state with the length that it counts down from: a run that goes on with another one follows that."""
        return {**super().to_record(), "num_iters": self.num_iters}

    def upgraded(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """The state, counted down from the length of this schedule."""
        length, remaining = state.get("num_iters"), state.get("remaining_iters")
        if type(length) is not int or type(remaining) is not int:
            return state
        rest = {name: value for name, value in state.items() if name != "num_iters"}
        return {**rest, "remaining_iters": max(remaining + self.num_iters - length, 0)}
