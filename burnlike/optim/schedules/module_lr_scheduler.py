"""ModuleLrScheduler: a schedule for each group of parameters."""

from collections.abc import Sequence
from typing import ClassVar

from torch import nn

from ...module import ParamGroup, params
from .learning_rates import ModuleLearningRate, check_groups
from .lr_scheduler import AnyLrScheduler, LrScheduler, each_its_own


class ModuleLrScheduler(AnyLrScheduler[ModuleLearningRate]):
    """A schedule for the parameters in no group, and one for each group; all advance at every step.

    Records have the place of a scheduler before its numbers, `"0."` for the base, as Burn 0.22's have
    (lr_scheduler/module.rs).

    Attributes:
        base: the schedule of parameters in no group.
        groups: which parameters have one of their own; of several that accept a parameter the last one counts.
        schedulers: one for each group.
    """

    grouped: ClassVar[bool] = True

    def __init__(self, base: LrScheduler, groups: Sequence[tuple[ParamGroup, LrScheduler]] = ()) -> None:
        """Make it of schedulers.

        Args:
            base: of parameters in no group.
            groups: parameters, and their schedule.

        Raises:
            ArgumentError: a schedule is in two places.
        """
        super().__init__()
        self.groups = tuple(group for group, _ in groups)
        self.base, *self.schedulers = each_its_own([base, *(scheduler for _, scheduler in groups)])

    @property
    def children(self) -> Sequence[LrScheduler]:
        """The base and the schedules of the groups."""
        return [self.base, *self.schedulers]

    def step(self) -> ModuleLearningRate:
        """Advance by one optimizer step and return its learning rates."""
        # The same groups each time: an optimizer then looks up only once which parameters they are.
        rates = tuple(scheduler.step() for scheduler in self.schedulers)
        return ModuleLearningRate(self.base.step(), self.groups, rates)

    def check(self, module: nn.Module) -> None:
        """Refuse a module that a group matches no parameter of.

        Raises:
            ConfigError: there is such a group.
        """
        check_groups(self.groups, params(module, "weight"), "the learning rates")
