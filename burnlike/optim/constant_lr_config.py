"""Config of the constant rate."""

from typing import TYPE_CHECKING, Annotated

from ..config import LrSchedulerConfig, Meta

if TYPE_CHECKING:
    from .constant_lr import ConstantLr


class ConstantLrConfig(LrSchedulerConfig, tag="ConstantLr"):
    """The same rate at every step.

    Attributes:
        lr: the rate.
    """

    lr: Annotated[float, Meta(ge=0)]

    def init(self, num_iters: int | None = None) -> "ConstantLr":
        """Make the schedule; how long the run is does not matter."""
        from .constant_lr import ConstantLr

        return ConstantLr(self.lr)
