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
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import ParametrizationList

from ..._torch_compat.fake_tensors import active_mode, fake_of, is_fake, new_mode
from ..._torch_compat.pytree import tree_leaves
from ...errors import ConfigError
from ...module.torch_objects.wrappers import note_base_name
from .part_of_model import Stage
from .pipeline_plan import Plan


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
        id(it)
        for path, module in modules.items()
        if not plan.stages_of[path].isdisjoint(here)
        for it in module.parameters(recurse=False)
    }
    fakes: dict[int, Tensor] = {}
    for path, module in modules.items():
        if isinstance(module, PartOfPipeline):  # met by another path
            continue
        parameters = dict(module.named_parameters(recurse=False))
        gone = {name: it for name, it in parameters.items() if id(it) not in kept}
        if gone and isinstance(module, ParametrizationList):
            note_base_name(module)
        for name in gone:
            del module._parameters[name]
        changing = parameters if len(here) > 1 else gone
        if changing or path in numbers:
            content: dict[str, Any] = {"_runner": runner, "_number": numbers.get(path)}
            content["_stages"] = plan.stages_of[path]
            content["_fakes"] = {
                name: fakes.setdefault(id(it), fake_of(it, mode, device)) for name, it in changing.items()
            }
            content["__module__"] = type(module).__module__
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
