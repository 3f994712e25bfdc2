"""The states of an optimizer by ParamId, as records and back."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Size, Tensor

from ...errors import RecordError, RecordMismatchError, ShapeError
from ...module import Param, ParamId
from ...record import LoadReport, Mismatch, Record
from ...record.files.stored_tensors import shape_in
from ...record.pytree.type_layout import fits_layout, layout_of_type
from ..core.sharded import Division, divided_state, division_of, local, local_state
from ..core.state import flatten, map_tensors, unflatten
from ..rules.simple_optimizer import SimpleOptimizer
from .matching import (
    OptimizerLoadReport,
    StateEntry,
    StateMatch,
    StateOwner,
    entries_of,
    match_entries,
    refuse_mismatched,
    refuse_orphans,
    tensors_of,
)

Rule = SimpleOptimizer[Any]
RuleOf = Callable[[ParamId, str | None], Rule]
"""The rule of a parameter, by its id and its path if that is known."""


@dataclass(slots=True)
class KeptStates:
    """States and what is known of their parameters, by ParamId.

    Attributes:
        states: the states.
        paths: of their parameters.
        ranks: dimensions of their parameters.
        shapes: of their parameters, where these are known.
        divisions: how those that are divided among ranks are divided.
        random_step: how many steps have rounded stochastically.
        report: what became of each state at the load that they are from; None if they are from no record.
    """

    states: dict[ParamId, Any] = field(default_factory=dict)
    paths: dict[ParamId, str] = field(default_factory=dict)
    ranks: dict[ParamId, int] = field(default_factory=dict)
    shapes: dict[ParamId, Size] = field(default_factory=dict)
    divisions: dict[ParamId, Division | None] = field(default_factory=dict)
    random_step: int = 0
    report: OptimizerLoadReport | None = None

    def note(self, param: Param) -> None:
        """Keep what a record says of a parameter beside its state."""
        self.paths[param.id] = param.path
        self.shapes[param.id] = param.tensor.shape
        self.ranks[param.id] = param.tensor.dim()

    def of(self, param: Param) -> Any:
        """The state of a parameter, or None; ShapeError if it is of a parameter of another shape."""
        shape = self.shapes.get(param.id)
        if shape is not None and shape != param.tensor.shape:
            raise ShapeError(
                f"'{param.path}' has shape {list(param.tensor.shape)}, and its state is of shape {list(shape)}; nothing"
                " was changed; set_state(param, None) lets it begin anew"
            )
        return self.states.get(param.id)

    def drop(self, param_id: ParamId) -> None:
        for kept in (self.states, self.paths, self.ranks, self.shapes, self.divisions):
            kept.pop(param_id, None)

    def into_record(self, rule_of: RuleOf, name: str) -> Record:
        """All states, copying nothing: `<id>.<field>` tensors and values, and the path of each id."""
        tensors: dict[str, Tensor] = {}
        states: dict[str, Any] = {}
        for param_id, state in self.states.items():
            state_tensors, state_values = flatten(divided_state(state, self.divisions.get(param_id)))
            tensors |= {f"{param_id}.{name}": tensor for name, tensor in state_tensors.items()}
            states |= {f"{param_id}.{name}": value for name, value in state_values.items()}
        paths = {str(param_id): self.paths[param_id] for param_id in self.states if param_id in self.paths}
        values = {"states": states, "paths": paths} | ({"random_step": self.random_step} if self.random_step else {})
        return Record(tensors=tensors, values=values, source=f"the record of {name}", layout=self._layout(rule_of))

    def _layout(self, rule_of: RuleOf) -> Any:
        if not self.ranks.keys() >= self.states.keys():
            return None
        if not self.states:
            return {"$map": {"$state": {}}}
        layouts = {}
        for param_id, state in self.states.items():
            below = layout_of_state(rule_of(param_id, self.paths.get(param_id)), state)
            if below is None:
                return None
            layouts[str(param_id)] = {"$state": below, "rank": self.ranks[param_id]}
        return layouts


def layout_of_state(rule: Rule, state: Any = None) -> Any:
    """The layout of a rule's states, or of `state`, which may hold what Burn's don't; None if it can't be told."""
    return layout_of_type(rule.state_type) if fits_layout(state) else None


def checked_layout(rule: Rule) -> Any:
    layout = layout_of_state(rule)
    if layout is None:
        name = rule.state_type.__name__
        raise RecordError(f"the layout of {name} can't be told from its types; declare the type of each field")
    return {"$map": {"$state": layout}}


def read_states(
    record: Record,
    targets: Sequence[StateOwner] | None,
    rule_of: RuleOf,
    *,
    report: LoadReport | None = None,
    prune_orphans: bool = False,
) -> KeptStates:
    """As `StatefulOptimizer.read_states`, for states of the rules that `rule_of` gives."""
    entries = entries_of(record)
    if targets is None:
        ids = {} if report is None else report.ids
        for entry in entries:
            entry.id = ids.get(entry.id, entry.id)
        matches = [StateMatch(entry, None) for entry in entries]
        found = OptimizerLoadReport(by_id=[entry.path or str(entry.id) for entry in entries])
    else:
        matches, found = match_entries(entries, targets, report)
        if not prune_orphans:
            refuse_orphans(entries, found, targets, record.source)
        found = replace(found, mismatched=[*_mismatches(matches, record, rule_of)])
        refuse_mismatched(found, record.source)
    loaded = KeptStates(report=found, random_step=_random_step(record))
    for entry, target in matches:
        param_id = entry.id if target is None else target.id
        rule = _rule(entry, target, rule_of)
        state, rank = _state_of(entry, target, record, rule)
        loaded.states[param_id] = state
        if target is not None:
            loaded.shapes[param_id] = target.param.tensor.shape
        if target is not None and rule.elementwise:
            loaded.divisions[param_id] = division_of(target.param.tensor)
        path = entry.path if target is None else target.param.path
        if path is not None:
            loaded.paths[param_id] = path
        if rank is not None:
            loaded.ranks[param_id] = rank
    return loaded


def _random_step(record: Record) -> int:
    found = record.values.get("random_step", 0)
    if type(found) is not int or not 0 <= found < 2**47:  # its seeds have 16 bits more
        raise RecordMismatchError(f"{record.source}: expected random_step, a number of steps, got {found!r:.60}")
    return found


def _rule(entry: StateEntry, target: StateOwner | None, rule_of: RuleOf) -> Rule:
    return rule_of(entry.id, entry.path) if target is None else rule_of(target.id, target.param.path)


def _mismatches(matches: Sequence[StateMatch], record: Record, rule_of: RuleOf) -> Iterator[Mismatch]:
    for entry, target in matches:
        if target is None:
            continue
        tensor = target.param.tensor
        rule = _rule(entry, target, rule_of)
        for part, name in entry.tensors.items():
            shape = shape_in(record.tensors, name)
            wanted = {rule.state_shape(part, it) for it in (tensor.shape, local(tensor).shape)}
            if shape and None not in wanted and shape not in wanted:
                expected = " or ".join(str(list(it)) for it in wanted if it is not None)
                yield Mismatch(f"{target.param.path}, {part}", expected, str(list(shape)))


def _state_of(entry: StateEntry, target: StateOwner | None, record: Record, rule: Rule) -> tuple[Any, int | None]:
    """The state, on the device of its parameter, and the parameter's rank if that is known."""
    tensors = tensors_of(entry, record)
    try:
        state = unflatten(rule.state_type, tensors, entry.values)
    except RecordMismatchError as error:
        raise RecordMismatchError(
            f"the state of {entry} in {record.source} is none of {type(rule).__name__}: {error}"
        ) from error
    if target is not None:
        tensor = target.param.tensor
        device = tensor.device
        if rule.elementwise:
            state = local_state(state, tensor)
        return state if tensor.is_meta else map_tensors(state, lambda it: it.to(device)), tensor.dim()
    ranks = [tensor.dim() for tensor in tensors.values()]
    return state, entry.rank if entry.rank is not None else max(ranks, default=None)
