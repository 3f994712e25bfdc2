"""The schedule that stays at one rate."""

from typing import ClassVar

from .lr_scheduler import LrScheduler


class ConstantLr(LrScheduler):
    """lr(i) = lr. It has no state."""

    burn_0_21: ClassVar[tuple[str | None, str] | None] = (None, "unit")

    def __init__(self, lr: float) -> None:
        super().__init__()
        self.lr = lr

    def step(self) -> float:
        """The learning rate."""
        return self.lr
