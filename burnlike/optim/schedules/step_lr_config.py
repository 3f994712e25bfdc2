"""Config of the schedule in stairs."""

from typing import TYPE_CHECKING

from ...config import LrSchedulerConfig
from ...config.bounds import Count, Positive

if TYPE_CHECKING:
    from .step_lr import StepLr


class StepLrConfig(LrSchedulerConfig, tag="StepLr"):
    """The rate is multiplied by gamma every step_size steps.

    Attributes:
        initial_lr: the first rate.
        step_size: steps that a rate is kept.
        gamma: the factor; above 1 the rate grows.
    """

    initial_lr: Positive
    step_size: Count
    gamma: Positive = 0.1

    def init(self, num_iters: int | None = None) -> "StepLr":
        """Make the schedule; how long the run is does not matter."""
        from .step_lr import StepLr

        return StepLr(self.initial_lr, self.step_size, self.gamma)
