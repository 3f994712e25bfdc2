"""What torch says of the config of a training: its groups, its patterns, and one batch without values."""

from collections.abc import Iterator
from typing import Any

from ...config import ModuleConfig
from ...data import transformed
from ...errors import BurnlikeError
from ...module import params
from ...module.groups.param_group import ParamGroup
from ...module.groups.param_matchers import MatchIds
from .configs import TrainConfig
from .device import build_on_meta
from .starting import record_problems, untrained_problems
from .trial import batch_problems, needs_values, said


def trial_problems(config: Any, *, data: bool) -> list[tuple[str, str]]:
    """The paths in a config of a training, and what is wrong there.

    Args:
        data: whether its data is read.
    """
    if not (isinstance(config, TrainConfig) and isinstance(config.model, ModuleConfig)):
        return []
    try:
        module = build_on_meta(config.model)
    except (BurnlikeError, RuntimeError, NotImplementedError) as error:
        return [] if needs_values(error) else [("model", said(error))]
    found = [*unmatched_groups(config, module)]
    if not data:
        return [*found, *untrained_problems(module, config)]
    return [*found, *record_problems(config, module), *_data_problems(config, module)]


def _data_problems(config: Any, module: Any) -> list[tuple[str, str]]:
    """What is wrong with the data, with the length of the run for it, and with a batch of it."""
    try:
        data = transformed(config.data.init(), config.transforms)
        batches = -(-len(data.train) // config.training.batch_size)
    except Exception as error:  # of a class of one's own, anything
        return [("data", said(error))]
    found: list[tuple[str, str]] = []
    if config.training.steps_per_epoch is None:
        steps = config.training.epochs * config.training.steps_of(batches)
        reason = f"training.epochs times the batches of {len(data.train)} items"
        found += config.schedule_problems(steps, reason)
    try:
        return [*found, *batch_problems(config, data, module)]
    except BurnlikeError as error:
        return [*found, ("data", said(error))]


def unmatched_groups(config: Any, module: Any) -> Iterator[tuple[str, str]]:
    """The path of each group that matches no parameter, and what is wrong.

    Groups by id are left out: ids are drawn when the training begins.

    Args:
        module: the model.
    """
    weights = params(module, "weight")
    for part in ("optimizer", "lr_scheduler"):
        for place, group in enumerate(getattr(getattr(config, part), "groups", ())):
            if not (_has_ids(group.params) or any(group.params.matches(param) for param in weights)):
                known = ", ".join(param.path for param in weights[:5]) + (", ..." if weights[5:] else "")
                yield f"{part}.groups.{place}.params", f"matches no parameter of the model ({known}): {group.params}"


def _has_ids(group: ParamGroup) -> bool:
    return any(isinstance(rule, MatchIds) for rule in (*group.match, *group.excludes))
