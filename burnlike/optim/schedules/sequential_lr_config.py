"""Config of schedules one after another."""

from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

from ...config import LrSchedulerConfig
from ...config.bounds import Count
from .module_lr_scheduler_config import within

if TYPE_CHECKING:
    from .sequential_lr import SequentialLr


class SequentialLrConfig(LrSchedulerConfig, tag="SequentialLr"):
    """One schedule after another.

    Attributes:
        schedulers: one or more of any type.
        milestones: the steps, counted from 0, at which the second, third, ... schedule begins.
    """

    schedulers: list[LrSchedulerConfig]
    milestones: list[Count]

    def validate(self) -> Iterable[tuple[str, str]]:
        """The rules about the lists."""
        if not self.schedulers:
            yield "schedulers", "expected at least one scheduler, got none"
        elif len(self.milestones) != len(self.schedulers) - 1:
            yield (
                "milestones",
                f"expected {len(self.schedulers) - 1}, one less than schedulers, got {len(self.milestones)}",
            )
        yield from within("schedulers.{}", self.schedulers)
        if any(first >= second for first, second in pairwise(self.milestones)):
            yield "milestones", f"expected them to increase strictly, got {self.milestones}"

    def init(self, num_iters: int | None = None) -> "SequentialLr":
        """Make the schedules; one without a length of its own gets the steps between its milestones.

        Args:
            num_iters: optimizer steps of the whole run, for the last schedule.

        Raises:
            ConfigError: the last schedule needs a length and has none.
        """
        from .sequential_lr import SequentialLr

        borders = [0, *self.milestones, num_iters]
        lengths = [None if end is None else end - begin for begin, end in pairwise(borders)]
        made = [config.init(length) for config, length in zip(self.schedulers, lengths, strict=True)]
        return SequentialLr(made, self.milestones)
