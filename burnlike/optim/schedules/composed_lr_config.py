"""Config of several schedules as one."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from ...config import LrSchedulerConfig
from .module_lr_scheduler_config import within

if TYPE_CHECKING:
    from .composed_lr import ComposedLr

Reduction = Literal["prod", "sum", "avg"]


class ComposedLrConfig(LrSchedulerConfig, tag="ComposedLr"):
    """The product, sum or average of the rates of several schedules that run side by side.

    Attributes:
        schedulers: one or more of any type.
        reduction: what is done with their rates.
    """

    schedulers: list[LrSchedulerConfig]
    reduction: Reduction = "prod"

    def validate(self) -> Iterable[tuple[str, str]]:
        """The rule about the list."""
        if not self.schedulers:
            yield "schedulers", "expected at least one scheduler, got none"
        yield from within("schedulers.{}", self.schedulers)

    def init(self, num_iters: int | None = None) -> "ComposedLr":
        """Make the schedules.

        Args:
            num_iters: optimizer steps of the whole run, for schedules that take their length from it.

        Raises:
            ConfigError: a schedule needs a length and has none.
        """
        from .composed_lr import ComposedLr

        return ComposedLr([config.init(num_iters) for config in self.schedulers], self.reduction)
