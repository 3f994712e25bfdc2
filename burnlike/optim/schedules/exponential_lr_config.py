"""Config of the exponential schedule."""

from typing import TYPE_CHECKING, Annotated

from ...config import LrSchedulerConfig, Meta

if TYPE_CHECKING:
    from .exponential_lr import ExponentialLr


class ExponentialLrConfig(LrSchedulerConfig, tag="ExponentialLr"):
    """Each rate is gamma times the one before.

    Attributes:
        initial_lr: the first rate.
        gamma: the factor.
    """

    initial_lr: Annotated[float, Meta(gt=0, le=1)]
    gamma: Annotated[float, Meta(gt=0, le=1)]

    def init(self, num_iters: int | None = None) -> "ExponentialLr":
        """Make the schedule; how long the run is does not matter."""
        from .exponential_lr import ExponentialLr

        return ExponentialLr(self.initial_lr, self.gamma)
