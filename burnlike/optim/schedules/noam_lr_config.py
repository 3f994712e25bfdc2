"""Config of the schedule of the Transformer."""

import sys
from typing import TYPE_CHECKING, Annotated

from ...config import LrSchedulerConfig, Meta
from ...config.bounds import Count

if TYPE_CHECKING:
    from .noam_lr import NoamLr


class NoamLrConfig(LrSchedulerConfig, tag="NoamLr"):
    """A linear warm-up, then a fall with the root of the steps (Vaswani et al. 2017, eq. 3).

    Attributes:
        factor: scales all rates.
        warmup_steps: steps of the warm-up.
        model_size: width of the model; its root divides all rates.
    """

    factor: Annotated[float, Meta(gt=0, le=sys.float_info.max)]  # the roots of large sizes divide it
    warmup_steps: Count = 4000
    model_size: Count = 512

    def init(self, num_iters: int | None = None) -> "NoamLr":
        """Make the schedule; how long the run is does not matter."""
        from .noam_lr import NoamLr

        return NoamLr(self.factor, self.warmup_steps, self.model_size)
