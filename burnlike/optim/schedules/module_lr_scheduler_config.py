"""Config of a schedule for each group of parameters."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ...config import Config, LrSchedulerConfig
from ...module.groups.param_group import ParamGroup

if TYPE_CHECKING:
    from .module_lr_scheduler import ModuleLrScheduler


class LrGroupConfig(Config):
    """Parameters with a schedule of their own.

    Attributes:
        params: which they are.
        scheduler: their schedule.
    """

    params: ParamGroup
    scheduler: LrSchedulerConfig


class ModuleLrSchedulerConfig(LrSchedulerConfig, tag="ModuleLrScheduler"):
    """A schedule for the parameters in no group, and one for each group.

    Attributes:
        base: of parameters in no group; its rate is what a log of the training shows.
        groups: of several that match a parameter the last counts.
    """

    base: LrSchedulerConfig
    groups: tuple[LrGroupConfig, ...] = ()

    def validate(self) -> Iterable[tuple[str, str]]:
        """Groups can't have groups."""
        yield from within("base", [self.base])
        for place, group in enumerate(self.groups):
            yield from within(f"groups.{place}.scheduler", [group.scheduler])

    def init(self, num_iters: int | None = None) -> "ModuleLrScheduler":
        """Make the schedules.

        Args:
            num_iters: optimizer steps of the whole run, for schedules that take their length from it.

        Raises:
            ConfigError: a schedule needs a length and has none.
        """
        from .module_lr_scheduler import ModuleLrScheduler

        groups = [(group.params, group.scheduler.init(num_iters)) for group in self.groups]
        return ModuleLrScheduler(self.base.init(num_iters), groups)


def within(path: str, configs: Sequence[LrSchedulerConfig]) -> Iterable[tuple[str, str]]:
    """Refuse schedules by group where one rate is wanted; for `validate`.

    Args:
        path: of the field; that of a list has `{}` where the number goes.
        configs: what it holds.
    """
    for place, config in enumerate(configs):
        if isinstance(config, ModuleLrSchedulerConfig):
            yield path.format(place), "expected one schedule, got ModuleLrScheduler, which has to be the outermost"
