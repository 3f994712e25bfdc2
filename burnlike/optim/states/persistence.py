"""The states of an optimizer by ParamId: kept, saved as records, and loaded."""

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Size, Tensor, nn

from ...errors import RecordMismatchError, ShapeError
from ...module import Param, ParamId
from ...record import LoadReport, Mismatch, Record
from ...record.files.stored_tensors import shape_in
from ...record.pytree import fits_layout, layout_of_type
from ..core.sharded import Division, divided_state, division_of, local, local_state
from ..core.state import flatten, map_tensors, unflatten
from ..rules.simple_optimizer import SimpleOptimizer
from .matching import (
    LAYOUTS,
    OptimizerLoadReport,
    StateMatch,
    StateOwner,
    entries_of,
    match_entries,
    noted_layouts,
    refuse_misfits,
    tensors_of,
)

Rule = SimpleOptimizer[Any]
RuleOf = Callable[[ParamId, str | None], Rule]
"""The rule of a parameter, by its id and its path if that is known."""


@dataclass(slots=True)
class KeptStates:
    """States and what is known of their parameters, by ParamId: paths, dimensions, shapes, how they are divided among
    ranks.

    `random_step` is how many steps have rounded stochastically; `report` says what became of each state at the load
    that they are from. `layouts` is what a record says of how the states lie, where no module does; `modules` are those
    whose parameters have them, and `is_placed` is False while no module was asked.
    """

    states: dict[ParamId, Any] = field(default_factory=dict)
    paths: dict[ParamId, str] = field(default_factory=dict)
    ranks: dict[ParamId, int] = field(default_factory=dict)
    shapes: dict[ParamId, Size] = field(default_factory=dict)
    divisions: dict[ParamId, Division | None] = field(default_factory=dict)
    random_step: int = 0
    report: OptimizerLoadReport | None = None
    layouts: Mapping[str, Any] | None = None
    modules: tuple["weakref.ref[nn.Module]", ...] = ()
    is_placed: bool = True

    def note(self, param: Param, param_id: ParamId) -> None:
        """Keep what a record says of a parameter beside its state."""
        self.paths[param_id] = param.path
        self.shapes[param_id] = param.tensor.shape
        self.ranks[param_id] = param.tensor.dim()

    def of(self, param: Param) -> Any:
        """The state of a parameter, or None; ShapeError if it is of a parameter of another shape."""
        shape = self.shapes.get(param.id)
        if shape is not None and shape != param.tensor.shape:
            raise ShapeError(
                f"'{param.path}' has shape {list(param.tensor.shape)}, and its state is of shape {list(shape)}; nothing"
                " was changed; set_state(param, None) lets it begin anew"
            )
        return self.states.get(param.id)

    def own_part(self, param_id: ParamId, tensor: Tensor, state: Any, rule: Rule) -> Any:
        """The state of a parameter as `rule` takes it: whole, or this rank's part; keeps how it is divided."""
        if not rule.takes_parts:
            return state
        self.divisions[param_id] = division_of(tensor)
        return local_state(state, tensor, rule.state_shape)

    def divided(self, param_id: ParamId, rule: Rule) -> Any:
        """The state of a parameter, of divided ones with DTensors; None if there is none."""
        return divided_state(self.states.get(param_id), self.divisions.get(param_id), rule.state_shape)

    def drop(self, param_id: ParamId) -> None:
        for kept in (self.states, self.paths, self.ranks, self.shapes, self.divisions):
            kept.pop(param_id, None)

    def belong_to(self, module: nn.Module) -> None:
        """Note that `module` has some of the parameters."""
        if not any(it() is module for it in self.modules):
            # Weakly: an optimizer is not to keep a module alive.
            self.modules = (*(it for it in self.modules if it() is not None), weakref.ref(module))

    def how_they_lie(self) -> Mapping[str, Any] | None:
        """The layouts that a record is to have of the states; None if nothing is known."""
        modules = [module for it in self.modules if (module := it()) is not None]
        return {**(self.layouts or {}), **noted_layouts(modules)} if modules else self.layouts

    def into_record(self, rule_of: RuleOf, name: str) -> Record:
        tensors: dict[str, Tensor] = {}
        states: dict[str, Any] = {}
        for param_id in self.states:
            rule = rule_of(param_id, self.paths.get(param_id))
            state_tensors, state_values = flatten(self.divided(param_id, rule))
            tensors |= {f"{param_id}.{name}": tensor for name, tensor in state_tensors.items()}
            states |= {f"{param_id}.{name}": value for name, value in state_values.items()}
        paths = {str(param_id): self.paths[param_id] for param_id in self.states if param_id in self.paths}
        values = {"states": states, "paths": paths} | ({"random_step": self.random_step} if self.random_step else {})
        if (layouts := self.how_they_lie()) is not None:
            values[LAYOUTS] = {text: layouts[text] for text in map(str, self.states) if text in layouts}
        return Record(tensors=tensors, values=values, source=f"the record of {name}", layout=self._layout(rule_of))

    def _layout(self, rule_of: RuleOf) -> Any:
        if not self.states:
            return {"$map": {"$state": {}}}
        layouts = {}
        for param_id, state in self.states.items():
            # A state may hold what Burn's don't.
            rule = rule_of(param_id, self.paths.get(param_id))
            below = layout_of_type(rule.state_type) if fits_layout(state) else None
            if below is None or param_id not in self.ranks:
                return None
            layouts[str(param_id)] = {"$state": below, "rank": self.ranks[param_id]}
        return layouts


def read_states(
    record: Record,
    targets: Sequence[StateOwner] | None,
    rule_of: RuleOf,
    *,
    report: LoadReport | None = None,
    prune_orphans: bool = False,
) -> KeptStates:
    """As `OptimizerAdaptor.read_states`, for states of the rules that `rule_of` gives."""
    entries = entries_of(record)
    layouts = record.values.get(LAYOUTS)
    if targets is None:
        ids = {} if report is None else report.ids
        for entry in entries:
            entry.id = ids.get(entry.id, entry.id)
        matches = [StateMatch(entry, None) for entry in entries]
        outcome = OptimizerLoadReport(by_id=[entry.path or str(entry.id) for entry in entries])
    else:
        matches, outcome = match_entries(entries, targets, report)
        # Orphans first: where a state belongs to no parameter, shapes that differ as well only hide that it is another
        # model.
        refuse_misfits(entries, outcome, targets, record.source, prune_orphans)
        outcome = replace(outcome, mismatched=[*_mismatches(matches, record, rule_of)])
        refuse_misfits(entries, outcome, targets, record.source, True)
    random_step = record.values.get("random_step", 0)
    if type(random_step) is not int or not 0 <= random_step < 2**47:  # its seeds have 16 bits more
        raise RecordMismatchError(f"{record.source}: expected random_step, a number of steps, got {random_step!r:.60}")
    loaded = KeptStates(report=outcome, random_step=random_step, layouts=layouts, is_placed=targets is not None)
    for entry, target in matches:
        param_id, path = (entry.id, entry.path) if target is None else (target.id, target.param.path)
        rule = rule_of(param_id, path)
        try:
            state = unflatten(rule.state_type, tensors_of(entry, record), entry.values)
        except RecordMismatchError as error:
            raise RecordMismatchError(
                f"the state of {entry} in {record.source} is none of {type(rule).__name__}: {error}"
            ) from error
        if target is not None:
            tensor = target.param.tensor
            loaded.note(target.param, param_id)
            state = loaded.own_part(param_id, tensor, state, rule)
            if not tensor.is_meta:  # a state on meta would lose its values
                state = map_tensors(state, lambda it, to=tensor.device: it.to(to))
        else:
            if path is not None:
                loaded.paths[param_id] = path
            dims = [value.dim() for value in flatten(state)[0].values()] if entry.rank is None else [entry.rank]
            loaded.ranks |= {param_id: max(dims)} if dims else {}
        loaded.states[param_id] = state
    return loaded


def _mismatches(matches: Sequence[StateMatch], record: Record, rule_of: RuleOf) -> Iterator[Mismatch]:
    for entry, target in matches:
        if target is None:
            continue
        tensor = target.param.tensor
        rule = rule_of(target.id, target.param.path)
        for part, name in entry.tensors.items():
            shape = shape_in(record.tensors, name)
            wanted = {rule.state_shape(part, it) for it in (tensor.shape, local(tensor).shape)}
            if shape and None not in wanted and shape not in wanted:
                expected = " or ".join(str(list(it)) for it in wanted if it is not None)
                yield Mismatch(f"{target.param.path}, {part}", expected, str(list(shape)))
