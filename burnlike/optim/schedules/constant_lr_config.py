"""Config of the constant rate."""

from typing import TYPE_CHECKING

from ...config import LrSchedulerConfig
from ...config.bounds import NotNegative

if TYPE_CHECKING:
    from .constant_lr import ConstantLr


class ConstantLrConfig(LrSchedulerConfig, tag="ConstantLr"):
    """The same rate at every step.

    Attributes:
        lr: the rate.
    """

    lr: NotNegative

    def init(self, num_iters: int | None = None) -> "ConstantLr":
        """Make the schedule; how long the run is does not matter."""
        from .constant_lr import ConstantLr

        return ConstantLr(self.lr)
