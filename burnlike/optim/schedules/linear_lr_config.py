"""Config of the linear schedule."""

from typing import TYPE_CHECKING, Annotated

from ...config import LrSchedulerConfig, Meta
from ...config.bounds import Count
from ...errors import ConfigError

if TYPE_CHECKING:
    from .linear_lr import LinearLr


class LinearLrConfig(LrSchedulerConfig, tag="LinearLr"):
    """From initial_lr to final_lr in equal steps, then final_lr.

    Attributes:
        initial_lr: the first rate.
        final_lr: the last one.
        num_iters: steps from one to the other; None takes those of the run.
    """

    initial_lr: Annotated[float, Meta(gt=0, le=1)]
    final_lr: Annotated[float, Meta(ge=0, le=1)]
    num_iters: Count | None = None

    def init(self, num_iters: int | None = None) -> "LinearLr":
        """Make the schedule.

        Args:
            num_iters: optimizer steps of the whole run, for a config that leaves its own num_iters out.

        Raises:
            ConfigError: neither is there.
        """
        from .linear_lr import LinearLr

        steps = self.num_iters or num_iters
        if steps is None or steps < 1:
            raise ConfigError(
                f"LinearLr: set num_iters, or give the steps of the run to init(num_iters), at least 1; got {num_iters}"
            )
        return LinearLr(self.initial_lr, self.final_lr, steps)
