"""A model of which this process has some stages: all of its modules, but only these stages' parameters.

What other stages have are fake tensors: shape, type and device. A forward pass goes through the whole model: what comes
before a stage computes shapes alone, its first unit is given what the stage before sent, and the pass ends where the
next stage begins. So whatever stands between blocks, masks and positions come out as in the whole model. A value that
depends on parameters of another stage, and does not come through its first unit, is fake: an error, not a wrong number.

Example: two processes, a model with the units `embed`, `blocks.0`, `blocks.1`, `head`, cut before `blocks.1`.

    stage 0 (has embed, blocks.0)                stage 1 (has blocks.1, head)
    model(tokens)                                model(tokens)
      embed     computes                           embed     fake output: its shape alone
      blocks.0  computes                           blocks.0  fake output
      blocks.1  StageEndError(sent): its           blocks.1  computes with what was received
                input is sent to stage 1           head      computes; the task's loss is the result

`plan_of` decides at which modules a model is cut, and which stage has what; `cut` does it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import ParametrizationList

from ..._torch_compat.fake_tensors import active_mode, fake_of, is_fake, new_mode
from ..._torch_compat.pytree import tree_leaves
from ...errors import ConfigError, nearest
from ...module.printing.values import type_text
from ...module.torch_objects.wrappers import note_base_name
from ...nn.joint_batch import JointLayer
from .part_of_model import Stage
from .strategies import blocks_of

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
            f"distributed.pipeline: {type_text(model)} is to be cut into {n_stages} stages, and can be cut before"
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
        patterns = [key for key, word in plan.items() if word == EACH]
        if path and any(pattern.count(".") == path.count(".") and fnmatchcase(path, pattern) for pattern in patterns):
            is_chain = isinstance(module, nn.Sequential) or callable(getattr(module, "pipeline_stages", None))
            inner = cuts_of(module) if is_chain else Cuts([], {})
            units += [f"{path}.{unit}" for unit in inner.units] or [path]
            words |= {f"{path}.{key}": word for key, word in inner.words.items()}
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
    numbers = [units.index(start) for start in starts]
    if any(one >= other for one, other in pairwise(numbers)):
        raise ConfigError(f"distributed.stages: expected modules in the order of the model, got {', '.join(starts)}")
    return [0, *numbers[len(numbers) - n_stages + 1 :]]


def _costs(model: nn.Module, units: Sequence[str], words: Mapping[str, str]) -> list[int]:
    """Approximate cost of each unit and of the modules after it: its parameters without embedding tables."""
    costs = [0] * len(units)
    for place, path, module in _placed(model, units):
        if place >= 0 and "Embedding" not in type(module).__name__:
            costs[place] += sum(parameter.numel() for parameter in module.parameters(recurse=False))
        if _word_of(path, words) == BOTH:
            costs[-1] += sum(parameter.numel() for parameter in module.parameters(recurse=False))
    return costs


def _word_of(path: str, words: Mapping[str, str]) -> str | None:
    return next((word for key, word in words.items() if f"{path}.".startswith(f"{key}.")), None)


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


class StageEndError(BaseException):
    """Ends a forward pass where the next stage begins; no `except Exception` of a model or task catches it."""

    def __init__(self, sent: Tensor) -> None:
        super().__init__("the end of a stage")
        self.sent = sent


class StageRunner:
    """The stage of a model that runs now; all of its units ask it whether they compute."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.stage: int | None = None
        self._begin = self._next = 0
        self._end: int | None = None
        self._received: Tensor | None = None
        self._given: dict[Any, Any] = {}
        self._has_values = active_mode() is None  # not in a forecast

    def run(self, stage: int, received: Tensor | None, step: Callable[[], Any]) -> Any:
        """The output of a stage, which its last unit sends on; of the last stage, the result of the step."""
        begins = [*self.plan.begins, None]
        self._begin, self._end, self._received = begins[stage] or 0, begins[stage + 1], received
        self.stage, self._next = stage, self._begin
        try:
            result = step()
        except StageEndError as end:
            return end.sent
        finally:
            self.stage = self._received = None
        if self._next != len(self.plan.units):
            missed = self.plan.units[self._next]
            raise ConfigError(f"distributed.pipeline: the step calls the model without its '{missed}': it can't be cut")
        if self._has_values and is_fake(result):
            raise ConfigError(
                "distributed.pipeline: the loss depends on parameters of an earlier stage otherwise than by what"
                f" '{self.plan.units[self._begin]}', with which the last one begins, is given; let stages begin"
                " elsewhere (distributed.stages), and untie a table that is also the head (tied: false)"
            )
        return result

    def call(self, number: int, unit: Any, forward: Callable[..., Any], args: Any, named: dict[str, Any]) -> Any:
        """The output of a unit, a fake one where an earlier stage computes it."""
        name = self.plan.units[number]
        key = None if args else next(iter(named), None)
        first = args[0] if args else named.get(key or "")
        if number < self._begin and self._next == self._begin:
            return self._shape(number, unit.forward, first, args, named)  # without the hooks of fully_shard
        if number != self._next:
            expected = self.plan.units[self._next] if self._next < len(self.plan.units) else "the end"
            raise ConfigError(
                f"distributed.pipeline: the step calls '{name}' of the model where '{expected}' is due: a"
                " pipeline calls a model once for a batch, and the units that it is cut into in their order"
            )
        if number == self._begin and self._received is not None:
            first = self._received
            torch.manual_seed(torch.initial_seed() + number)  # stages draw apart, such as for dropout
            args, named = ((first, *args[1:]), named) if args else ((), {**named, key or "": first})
        if self._has_values and any(map(is_fake, tree_leaves((args, named)))):
            raise ConfigError(
                f"distributed.pipeline: what is given to '{name}' depends on parameters of an earlier stage otherwise"
                " than by what the module before it gives first; let stages begin elsewhere (distributed.stages)"
            )
        if number == self._end:
            if not isinstance(first, Tensor):
                raise ConfigError(
                    f"distributed.pipeline: a stage sends a tensor to the next one, and '{name}', with which the next"
                    f" begins, is given a {type(first).__name__} first; let it begin elsewhere (distributed.stages)"
                )
            raise StageEndError(first)
        self._next += 1
        return forward(*args, **named)

    def _shape(self, number: int, forward: Callable[..., Any], first: Any, args: Any, named: dict[str, Any]) -> Any:
        """The output of a unit of another stage, without values; it is computed once for each shape."""
        key = (number, getattr(first, "shape", None), getattr(first, "dtype", None))
        if key not in self._given:
            with torch.no_grad():
                self._given[key] = forward(*args, **named)
        return self._given[key]


class PartOfPipeline:
    """Base that `cut` puts before the class of a module that is a unit, or that a pipeline takes parameters of."""

    _runner: StageRunner
    _number: int | None = None
    _stages: frozenset[int] = frozenset()
    _fakes: Mapping[str, Tensor] = {}

    # torch keeps parameters in `_parameters`, not in `__dict__`, so that each look-up of one comes here.
    def __getattr__(self, name: str) -> Any:
        kind = type(self)
        if name in kind._fakes:
            stage = kind._runner.stage
            if name not in vars(self)["_parameters"] or not (stage is None or stage in kind._stages):
                return kind._fakes[name]
        return super().__getattr__(name)  # pyright: ignore[reportAttributeAccessIssue]

    def __call__(self, *args: Any, **named: Any) -> Any:
        kind = type(self)
        forward: Any = super().__call__  # pyright: ignore[reportAttributeAccessIssue]
        if kind._number is None or kind._runner.stage is None:
            return forward(*args, **named)
        return kind._runner.call(kind._number, self, forward, args, named)


def cut(model: nn.Module, plan: Plan, here: Sequence[int], device: torch.device) -> tuple[StageRunner, list[Stage]]:
    """Take the parameters of other stages out of a model, in place, and give the stages of this process (`here`).

    The names and ids of the parameters that stay are what they were; buffers stay.
    """
    runner, mode = StageRunner(plan), new_mode()
    numbers = {path: number for number, path in enumerate(plan.units)}
    modules = dict(model.named_modules(remove_duplicate=False))
    kept = {
        id(parameter)
        for path, module in modules.items()
        if not plan.stages_of[path].isdisjoint(here)
        for parameter in module.parameters(recurse=False)
    }
    fakes: dict[int, Tensor] = {}
    for path, module in modules.items():
        if isinstance(module, PartOfPipeline):  # met by another path
            continue
        parameters = dict(module.named_parameters(recurse=False))
        gone = {name: parameter for name, parameter in parameters.items() if id(parameter) not in kept}
        if gone and isinstance(module, ParametrizationList):
            note_base_name(module)
        for name in gone:
            del module._parameters[name]
        changing = parameters if len(here) > 1 else gone
        if changing or path in numbers:
            content: dict[str, Any] = {"_runner": runner, "_number": numbers.get(path)}
            content["_stages"] = plan.stages_of[path]
            content["_fakes"] = {
                name: fakes.setdefault(id(value), fake_of(value, mode, device)) for name, value in changing.items()
            }
            content["__module__"] = type(module).__module__  # by which it is told whose code a class is
            # A class for each module: Python looks `__call__` and `__getattr__` up in the class alone.
            kind: Any = type(type(module).__name__, (PartOfPipeline, type(module)), content)
            module.__class__ = kind
    begins = [*plan.begins, len(plan.units)]
    stages: list[Stage] = []
    for number in here:
        units = [modules[path] for path in plan.units[begins[number] : begins[number + 1]]]
        stages.append(Stage(number, [model] if len(here) == 1 else [*_own_parts(modules, plan, number)], units))
    return runner, stages


def _own_parts(modules: Mapping[str, nn.Module], plan: Plan, number: int) -> Iterator[nn.Module]:
    """The outermost modules all of whose parameters are on a stage, as far as it is their first."""
    stages: dict[str, set[int]] = {}
    for path, module in modules.items():
        if next(module.parameters(recurse=False), None) is not None:
            names = path.split(".")
            for place in range(len(names) + 1):
                stages.setdefault(".".join(names[:place]), set()).add(min(plan.stages_of[path]))
    within: list[str] = []
    for path, module in modules.items():
        if any(f"{path}.".startswith(f"{it}.") for it in within) or number not in stages.get(path, ()):
            continue
        if stages[path] == {number}:
            within.append(path)
            yield module
        elif beside := next((name for name, _ in module.named_parameters(recurse=False)), None):
            raise ConfigError(
                f"distributed.schedule: the parameter '{path}.{beside}' stands beside blocks of several stages; a"
                " process with several stages takes models whose parameters are in modules below; expected 1F1B or"
                " GPipe"
            )
