"""The exponential schedule."""

from collections.abc import Mapping
from typing import ClassVar

from .lr_scheduler import LrScheduler


class ExponentialLr(LrScheduler):
    """lr(i) = initial * gamma^i, each rate computed from the one before (exponential.rs)."""

    fields: ClassVar[Mapping[str, str]] = {"previous_lr": "f64"}
    burn_0_21: ClassVar[tuple[str | None, str] | None] = ("Exponential", "f64")

    def __init__(self, initial_lr: float, gamma: float) -> None:
        super().__init__(previous_lr=initial_lr / gamma)
        self.gamma = gamma

    def step(self) -> float:
        """Advance by one optimizer step and return its learning rate."""
        self.state["previous_lr"] *= self.gamma
        return self.state["previous_lr"]
