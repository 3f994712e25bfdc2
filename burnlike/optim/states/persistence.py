"""The states of an optimizer by ParamId: kept, saved as records, and loaded."""

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from torch import Size, Tensor, nn

from ...errors import RecordError, RecordMismatchError, ShapeError
from ...module import Param, ParamId, params
from ...record import LoadReport, Mismatch, Record
from ...record.files.stored_tensors import shape_in
from ...record.pytree import fits_layout, layout_of_type
from ..core.sharded import Division, divided_state, division_of, local, local_state
from ..core.state import flatten, map_tensors, unflatten
from ..optimizer import Optimizer
from ..rules.rule_set import RuleSet
from ..rules.simple_optimizer import SimpleOptimizer
from ..schedules.learning_rates import BASE
from .matching import (
    LAYOUTS,
    OptimizerLoadReport,
    StateEntry,
    StateMatch,
    StateOwner,
    entries_of,
    laid_out,
    match_entries,
    noted_layouts,
    refuse_misfits,
    tensors_of,
)
from .torch_records import as_adaptors

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

    def without_modules(self) -> "KeptStates":
        """The same for copies and pickles."""
        return replace(self, layouts=self.how_they_lie(), modules=())

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
    """As `StatefulOptimizer.read_states`, for states of the rules that `rule_of` gives."""
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
        state = _state_of(entry, record, rule)
        if target is not None:
            tensor = target.param.tensor
            loaded.note(target.param, param_id)
            state = loaded.own_part(param_id, tensor, state, rule)
            if not tensor.is_meta:  # a state on meta would lose its values
                state = map_tensors(state, lambda it, to=tensor.device: it.to(to))
        else:
            if path is not None:
                loaded.paths[param_id] = path
            dims = [it.dim() for it in flatten(state)[0].values()] if entry.rank is None else [entry.rank]
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


def _state_of(entry: StateEntry, record: Record, rule: Rule) -> Any:
    try:
        return unflatten(rule.state_type, tensors_of(entry, record), entry.values)
    except RecordMismatchError as error:
        raise RecordMismatchError(
            f"the state of {entry} in {record.source} is none of {type(rule).__name__}: {error}"
        ) from error


class StatefulOptimizer(Optimizer):
    """An optimizer that keeps, saves and loads the states of its `rules`; the base of OptimizerAdaptor."""

    def __init__(self, rules: RuleSet) -> None:
        self.rules = rules
        self._kept = KeptStates()

    def _take_back_skipped(self) -> None:
        """Take back what skipped steps counted in the states, where this was left for later."""

    def _forget_batches(self) -> None:
        """Look the states up again in the next step; skipped steps that were not taken back are lost."""

    @property
    def load_report(self) -> OptimizerLoadReport | None:
        """The report of the last `load_record`; None before."""
        return self._kept.report

    @property
    def random_step(self) -> int:
        """The number of steps that rounded stochastically."""
        return self._kept.random_step

    def state_of(self, param: Param) -> Any:
        """The state of a parameter, whose tensors steps update; None before its first step.

        Under `fully_shard` its tensors are DTensors that share memory with the state.
        """
        self._take_back_skipped()
        return self._kept.divided(param.id, self.rules.rule_of(param.id, param.path))

    def set_state(self, param: Param, state: Any) -> None:
        """Put `state` in place of that of `param`; None drops it. TypeError if it is not of the type of the rule."""
        self._take_back_skipped()
        if state is None:
            self._kept.drop(param.id)
        else:
            rule = self.rules.rule_of(param.id, param.path)
            if not isinstance(state, rule.state_type):
                raise TypeError(
                    f"expected a {rule.state_type.__name__} as the state of '{param.path}', got {type(state).__name__}"
                )
            self._kept.states[param.id] = self._kept.own_part(param.id, param.tensor, state, rule)
            self._kept.note(param, param.id)
        self._forget_batches()

    def prune_orphans(self, module: nn.Module) -> list[str]:
        """Drop the states of parameters that `module` does not have; returns their paths, or ids where unknown."""
        self._take_back_skipped()
        ids = {param.id for param in params(module, "weight")}
        orphans = [param_id for param_id in self._kept.states if param_id not in ids]
        names = [self._kept.paths.get(param_id, str(param_id)) for param_id in orphans]
        for param_id in orphans:
            self._kept.drop(param_id)
        self._forget_batches()
        return names

    def into_record(self) -> Record:
        """All states, copying nothing: `<id>.<field>` tensors and values, and the path of each id.

        Its layout makes it fit every format, Burn's included. Under `fully_shard` the states are DTensors, divided as
        their parameters: `DistributedRecorder` saves them. It is a RecordError if a state holds something that has no
        place in a record.
        """
        self._take_back_skipped()
        return self._kept.into_record(self.rules.rule_of, type(self.rules.rules[0]).__name__)

    def record_layout(self) -> Any:
        """The layout of its records, for files that carry no names (Burn's `.bin`), or RecordError."""
        state_type = self.rules.rule(BASE).state_type
        if (layout := layout_of_type(state_type)) is None:
            raise RecordError(
                f"the layout of {state_type.__name__} can't be told from its types; declare the type of each field"
            )
        return {"$map": {"$state": layout}}

    def load_record(
        self,
        record: Record,
        module: nn.Module | None = None,
        *,
        report: LoadReport | None = None,
        prune_orphans: bool = False,
    ) -> Self:
        """Replace all states by those of `record`, each tensor in the dtype it was saved in; returns the optimizer.

        What became of each state is in `load_report`.

        Args:
            record: of `into_record` or Burn, or `torch_record` of one of torch's optimizers with the same rule; or a
                part.
            module: to be trained: each state goes to the parameter of its id, and where the module has none of it, to
                that of its path. None keeps the ids of the record.
            report: that of the module's load: where it renamed parameters or gave them other ids, the states follow.
            prune_orphans: drop states that belong to no parameter of `module`, which is an error otherwise.

        Raises:
            RecordMismatchError: the record is of another kind of optimizer, or does not fit the module; the states are
                as before.
            RecordIOError: its file can't be read; likewise.
        """
        targets = None if module is None else [StateOwner(param, param.id) for param in params(module, "weight")]
        record = Record.of(record)
        modules = () if module is None else (module,)
        loaded = self.read_states(record, targets, modules, report=report, prune_orphans=prune_orphans)
        self.take_states(loaded)
        return self

    def read_states(
        self,
        record: Record,
        targets: Sequence[StateOwner] | None,
        modules: Sequence[nn.Module] = (),
        *,
        report: LoadReport | None = None,
        prune_orphans: bool = False,
        of_torch: bool = False,
    ) -> KeptStates:
        """States for `load_record`, checked; nothing is changed yet.

        `targets`, parameters of `modules`, have the ids that they will have. `of_torch` as of `laid_out`.
        """
        states = as_adaptors(record)
        if targets is not None and modules:
            states = laid_out(states, targets, modules, report, of_torch=of_torch)
        loaded = read_states(states, targets, self.rules.rule_of, report=report, prune_orphans=prune_orphans)
        for module in modules:
            loaded.belong_to(module)
        return loaded

    def _place_states(self, module: nn.Module) -> None:
        """Refuse states that were loaded without a module, and lie otherwise than the parameters of this one."""
        if not self._kept.is_placed:
            record = self.into_record()
            targets = [StateOwner(param, param.id) for param in params(module, "weight")]
            if laid_out(record, targets, (module,)) is not record:
                raise RecordMismatchError(
                    f"the states were loaded without the module, and lie otherwise than the parameters of the"
                    f" {type(module).__name__}: load them by load_record(record, module). Nothing was changed"
                )
            self._kept.is_placed = True
        self._kept.belong_to(module)

    def take_states(self, loaded: KeptStates) -> None:
        self._kept = loaded
        self._forget_batches()
