"""How a model is cut into the stages of a pipeline: at which of its modules, and which stage has what."""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any, NamedTuple

from torch import nn

from ...errors import ConfigError, nearest
from ...nn.joint_batch import JointLayer
from .fsdp2 import blocks_of

_OF_BATCHES = (JointLayer, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
"""Layers whose output for an item depends on the other items."""

EACH, BOTH, LAST = "each", "both", "last"


class Cuts(NamedTuple):
    """The places where a model may be cut.

    Attributes:
        units: paths of the modules that one after the other compute what the next one is given, in their order.
        words: of other modules, by their paths: `both`, it is needed before the first unit and after the last one;
            `last`, after the last one alone.
    """

    units: list[str]
    words: dict[str, str]


class Plan(NamedTuple):
    """The modules of each stage.

    Attributes:
        units: as of `Cuts`.
        begins: the number of the first unit of each stage, which begins there; 0 first, where the first stage may end.
        stages_of: the stages that a module, which may hold modules, has parameters on, by its path.
    """

    units: list[str]
    begins: list[int]
    stages_of: dict[str, frozenset[int]]


def plan_of(model: nn.Module, n_stages: int, starts: Sequence[str] = ()) -> Plan:
    """Cut a model into `n_stages` stages, each of which begins at a path of `starts`, where there are any.

    A module that is no unit is on the stage of the unit before it, in the order in which the modules are registered.

    Raises:
        ConfigError: it can't be cut, or not into so many.
    """
    joint_paths = [path for path, module in model.named_modules() if isinstance(module, _OF_BATCHES)]
    if joint_paths:
        raise ConfigError(
            "distributed.pipeline: a pipeline computes a batch in parts, and what a layer gives depends on the whole"
            f" batch: {', '.join(joint_paths[:5])}; expected other layers, such as GroupNorm in place of BatchNorm"
        )
    units, words = cuts_of(model) if not starts else _with_starts(model, starts)
    if len(units) < n_stages - bool(starts):
        blocks = f"the {len(units)} of {units[0]} to {units[-1]}" if units else "none"
        raise ConfigError(
            f"distributed.pipeline: {type(model).__name__} is to be cut into {n_stages} stages, and can be cut before"
            f" each of its blocks, of which there are too few: {blocks}; take fewer stages, or name the modules that"
            " stages begin with in distributed.stages"
        )
    begins = _starts(units, n_stages, starts) if starts else _balanced(_costs(model, units, words), n_stages)
    last = len(begins) - 1
    stages_of: dict[str, frozenset[int]] = {}
    holders: dict[int, list[str]] = {}
    for place, path, module in _placed(model, units):
        stage = max((number for number, begin in enumerate(begins) if begin <= place), default=0)
        stages_of[path] = frozenset({BOTH: {stage, last}, LAST: {last}}.get(_word_of(path, words) or EACH, {stage}))
        for parameter in module.parameters(recurse=False):
            holders.setdefault(id(parameter), []).append(path)
    # Modules that share a parameter are on the stages of all of them, so that it has one name on each.
    for paths in holders.values():
        stages_of |= dict.fromkeys(paths, frozenset().union(*(stages_of[path] for path in paths)))
    return Plan(units, begins, stages_of)


def cuts_of(model: nn.Module) -> Cuts:
    """The cuts that a model names (`pipeline_stages`), those of transformers, or those before its blocks.

    `pipeline_stages` maps patterns of paths to words: `each`, the model may be cut before each of these modules, which
    are called one after the other, and what the next one is given first is all that it needs of the one before; `both`,
    the module is needed before the first of them and after the last; `last`, after the last alone. The empty path is of
    the parameters of the model itself.
    """
    stages: Any = getattr(model, "pipeline_stages", None)
    if callable(stages):
        plan: Any = stages()
    elif isinstance(model, nn.Sequential):
        plan = {"*": EACH}
    else:
        config: Any = getattr(model, "config", None)
        if getattr(config, "is_encoder_decoder", False):
            return Cuts([], {})
        # Of transformers the list that a model names in its plan of a pipeline.
        named: Any = getattr(model, "pp_plan", None) or {}
        modules = model.named_modules()
        lists = [module for path, module in modules if path in named and isinstance(module, nn.ModuleList)]
        blocks = {*(lists[0] if len(lists) == 1 and len(lists[0]) else blocks_of(model))}
        return Cuts([path for path, module in model.named_modules() if module in blocks], {})
    units, words = [], {path: word for path, word in plan.items() if word != EACH}
    for path, module in model.named_modules():
        patterns = [it for it, word in plan.items() if word == EACH]
        if path and any(it.count(".") == path.count(".") and fnmatchcase(path, it) for it in patterns):
            is_chain = isinstance(module, nn.Sequential) or callable(getattr(module, "pipeline_stages", None))
            inner = cuts_of(module) if is_chain else Cuts([], {})
            units += [f"{path}.{it}" for it in inner.units] or [path]
            words |= {f"{path}.{it}": word for it, word in inner.words.items()}
    return Cuts(units, words)


def _with_starts(model: nn.Module, starts: Sequence[str]) -> Cuts:
    """The cuts of a model, with modules that the user names and those beside them in a list."""
    modules = dict(model.named_modules())
    for place, path in enumerate(starts):
        if path not in modules or not path:
            raise ConfigError(
                f"distributed.stages.{place}: the model has no module '{path}'{nearest(path, [*modules])}"
            )
    cuts = cuts_of(model)
    if {*starts} <= {*cuts.units}:
        return cuts
    named: set[str] = {*starts}
    for path in starts:
        parent, _, _ = path.rpartition(".")
        if isinstance(modules[parent], nn.ModuleList | nn.Sequential):
            named |= {f"{parent}.{name}" if parent else name for name, _ in modules[parent].named_children()}
    return Cuts([path for path in modules if path in named], cuts.words)


def _starts(units: Sequence[str], n_stages: int, starts: Sequence[str]) -> list[int]:
    if len(starts) not in (n_stages, n_stages - 1):
        raise ConfigError(
            f"distributed.stages: expected the first module of each of {n_stages} stages, of which the first may be"
            f" left out, got {len(starts)}: {', '.join(starts)}"
        )
    numbers = [units.index(it) for it in starts]
    if any(one >= other for one, other in pairwise(numbers)):
        raise ConfigError(f"distributed.stages: expected modules in the order of the model, got {', '.join(starts)}")
    return [0, *numbers[len(numbers) - n_stages + 1 :]]


def _costs(model: nn.Module, units: Sequence[str], words: Mapping[str, str]) -> list[int]:
    """Approximate cost of each unit and of the modules after it: its parameters without embedding tables."""
    costs = [0] * len(units)
    for place, path, module in _placed(model, units):
        if place >= 0 and "Embedding" not in type(module).__name__:
            costs[place] += sum(it.numel() for it in module.parameters(recurse=False))
        if _word_of(path, words) == BOTH:
            costs[-1] += sum(it.numel() for it in module.parameters(recurse=False))
    return costs


def _word_of(path: str, words: Mapping[str, str]) -> str | None:
    return next((word for it, word in words.items() if f"{path}.".startswith(f"{it}.")), None)


def _balanced(costs: Sequence[int], n_stages: int) -> list[int]:
    """The beginnings of the stages, so that the largest sum of costs is as small as it can be."""
    count = len(costs)
    sums = [0]
    for cost in costs:
        sums.append(sums[-1] + cost)
    best: dict[tuple[int, int], tuple[int, list[int]]] = {(1, end): (sums[end], [0]) for end in range(1, count + 1)}
    for stages in range(2, n_stages + 1):
        for end in range(stages, count + 1):
            options = (
                (max(best[stages - 1, at][0], sums[end] - sums[at]), [*best[stages - 1, at][1], at])
                for at in range(stages - 1, end)
            )
            best[stages, end] = min(options, key=lambda it: it[0])
    return best[n_stages, count][1]


def _placed(model: nn.Module, units: Sequence[str]) -> Iterator[tuple[int, str, nn.Module]]:
    """Each module with its path and the number of the unit that it is in or behind; -1 before the first."""
    numbers, last, unit = {path: number for number, path in enumerate(units)}, -1, ""
    for path, module in model.named_modules(remove_duplicate=False):
        if path in numbers:
            last, unit = max(last, numbers[path]), path
        yield (numbers[unit] if unit and f"{path}.".startswith(f"{unit}.") else last), path, module
