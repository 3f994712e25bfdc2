"""Schedules one after another."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import ClassVar

from .lr_scheduler import LrScheduler, each_its_own


class SequentialLr(LrScheduler):
    """Schedule k runs from step milestones[k - 1] to milestones[k], the others stand still (sequential.rs)."""

    fields: ClassVar[Mapping[str, str]] = {"step": "u64"}

    def __init__(self, schedulers: Sequence[LrScheduler], milestones: Sequence[int]) -> None:
        super().__init__(step=0)
        self.schedulers = each_its_own(schedulers)
        self.milestones = list(milestones)

    @property
    def children(self) -> Sequence[LrScheduler]:
        """The schedules."""
        return self.schedulers

    def step(self) -> float:
        """Advance by one optimizer step and return its learning rate."""
        current = bisect_right(self.milestones, self.state["step"])
        self.state["step"] += 1
        return self.schedulers[current].step()
