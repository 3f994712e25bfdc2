"""The schedule of the Transformer."""

from collections.abc import Mapping
from typing import ClassVar

from .lr_scheduler import LrScheduler


class NoamLr(LrScheduler):
    """lr(n) = factor * model_size^-0.5 * min(n^-0.5, n * warmup_steps^-1.5) for steps n = 1, 2, ...

    It rises for warmup_steps steps, then falls with the root of the steps (Vaswani et al. 2017, eq. 3).
    """

    fields: ClassVar[Mapping[str, str]] = {"step": "f64"}
    burn_0_21: ClassVar[tuple[str | None, str] | None] = ("Noam", "usize")

    def __init__(self, factor: float, warmup_steps: int, model_size: int) -> None:
        super().__init__(step=0.0)
        self.factor = factor
        self.warmup_steps = warmup_steps
        self.model_size = model_size

    def step(self) -> float:
        """Advance by one optimizer step and return its learning rate."""
        step = self.state["step"] = self.state["step"] + 1.0
        rate = min(step**-0.5, step * self.warmup_steps**-1.5)
        return self.factor * self.model_size**-0.5 * rate
