"""Checks that groups of an optimizer and a schedule match parameters of the model, which is built without values."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from burnlike.config import ModuleConfig
from burnlike.errors import BurnlikeError
from burnlike.module.groups.param_group import ParamGroup
from burnlike.module.groups.param_matchers import MatchIds

if TYPE_CHECKING:
    from torch import nn


def unmatched_groups(config: Any) -> Iterator[tuple[str, str]]:
    """The path of each group that matches no parameter, and what is wrong; imports torch only if there are groups.

    Groups by id are left out: ids are drawn when the training begins. So is a model that can't be built without values.

    Args:
        config: of a run; one of another kind has no groups to look at.
    """
    groups = {
        f"{part}.groups.{place}.params": group.params
        for part in ("optimizer", "lr_scheduler")
        for place, group in enumerate(getattr(getattr(config, part, None), "groups", ()))
        if not _has_ids(group.params)
    }
    model = getattr(config, "model", None)
    if not groups or not isinstance(model, ModuleConfig):
        return
    from burnlike.module import params
    from burnlike.train.model_size import build_on_meta

    try:
        module: nn.Module = build_on_meta(model)
    except BurnlikeError as error:
        yield "model", str(error)
        return
    except (RuntimeError, NotImplementedError):
        return
    weights = params(module, "weight")
    for path, group in groups.items():
        if not any(group.matches(param) for param in weights):
            known = ", ".join(param.path for param in weights[:5]) + (", ..." if weights[5:] else "")
            yield path, f"matches no parameter of the model ({known}): {group}"


def _has_ids(group: ParamGroup) -> bool:
    return any(isinstance(rule, MatchIds) for rule in (*group.match, *group.excludes))
