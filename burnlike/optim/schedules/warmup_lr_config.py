"""Config of a linear warm-up before any schedule."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...config import LrSchedulerConfig
from ...config.bounds import Count, NotNegative
from ...errors import ConfigError
from .module_lr_scheduler_config import within

if TYPE_CHECKING:
    from .warmup_lr import WarmupLr


class WarmupLrConfig(LrSchedulerConfig, tag="WarmupLr"):
    """From a small rate to the first one of a schedule in equal steps, then that schedule.

    Attributes:
        scheduler: of any type; one without a length of its own gets what the warm-up leaves of the run.
        warmup_steps: how long the rate rises.
        initial_lr: the first rate; None begins with the first of warmup_steps equal parts.
    """

    scheduler: LrSchedulerConfig
    warmup_steps: Count
    initial_lr: NotNegative | None = None

    def validate(self) -> Iterable[tuple[str, str]]:
        """The rule about the schedule."""
        yield from within("scheduler", [self.scheduler])

    def init(self, num_iters: int | None = None) -> "WarmupLr":
        """Make the schedule.

        Args:
            num_iters: optimizer steps of the whole run, the warm-up among them.

        Raises:
            ConfigError: the schedule needs a length and has none, or the warm-up leaves nothing of the run.
        """
        from .warmup_lr import WarmupLr

        if num_iters is not None and num_iters <= self.warmup_steps:
            raise ConfigError(
                f"WarmupLr: warmup_steps ({self.warmup_steps}) leaves nothing of a run of {num_iters} steps"
            )
        left = None if num_iters is None else num_iters - self.warmup_steps
        return WarmupLr(self.scheduler.init(left), self.warmup_steps, self.initial_lr)
