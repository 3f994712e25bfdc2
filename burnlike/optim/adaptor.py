"""OptimizerAdaptor: a SimpleOptimizer for whole modules, its states kept by ParamId."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from ..errors import RecordError, RecordMismatchError
from ..module import Param, ParamId, params
from ..module.wrappers import is_distributed
from ..record import LoadReport, Mismatch, Record
from ..record.derived.type_layout import layout_of_type
from .clipping import clip
from .clipping_config import GradientClipping
from .gradients import GradientsParams
from .optimizer_report import OptimizerLoadReport
from .sharded import Division, divided_state, division_of, local, local_state
from .simple_optimizer import SimpleOptimizer
from .state import flatten, map_tensors, unflatten
from .state_entries import (
    Match,
    StateEntry,
    Target,
    entries_of,
    match_entries,
    refuse_mismatched,
    refuse_orphans,
    shape_of,
    tensors_of,
)

State = TypeVar("State")
Module = TypeVar("Module", bound=nn.Module)


class OptimizerAdaptor(Generic[State]):
    """Applies an update rule to every parameter that has a gradient.

    State follows a parameter by its ParamId: through reordering and renaming of layers, freezing, replacement of the
    tensor, and saving. A parameter without gradient is left as it is: no decay, no state, no count of time.

    Attributes:
        optimizer: the update rule.
        grad_clipping: what is done to gradients first.
        load_report: what became of each state at the last `load_record`; None before.
    """

    def __init__(self, optimizer: SimpleOptimizer[State], grad_clipping: GradientClipping | None = None) -> None:
        self.optimizer = optimizer
        self.grad_clipping = grad_clipping
        self._states: dict[ParamId, State] = {}
        self._paths: dict[ParamId, str] = {}
        self._ranks: dict[ParamId, int] = {}
        # The parameters and states of the last step, in one order: while they stay the same, a step looks nothing up.
        self._last: tuple[Sequence[Param] | None, Sequence[State | None]] = (None, ())
        self._sharded = False
        self._divisions: dict[ParamId, Division | None] = {}
        self.load_report: OptimizerLoadReport | None = None

    @torch.no_grad()
    def step(self, lr: float, module: Module, grads: GradientsParams) -> Module:
        """Update `module` in place with the gradients and return it; under `fully_shard`, this rank's parts.

        Args:
            lr: learning rate.
            module: the module that the gradients were taken from.
            grads: consumed in Burn; here they may be used again.
        """
        stepped, values = grads.params, grads.values
        if self.grad_clipping is not None:
            values = clip(self.grad_clipping, values)
        last_params, before = self._last
        known = last_params is stepped
        tensors = [param.tensor for param in stepped]
        if not known:
            self._sharded = any(map(is_distributed, tensors))
            before = [self._states.get(param.id) for param in stepped]
            if self._sharded:
                before = [local_state(state, it) for state, it in zip(before, tensors, strict=True)]
                self._divisions.update((param.id, division_of(param.tensor)) for param in stepped)
        if self._sharded:
            tensors, values = list(map(local, tensors)), list(map(local, values))
        after = self.optimizer.step_many(lr, tensors, values, before)
        if not known or after is not before:
            self._states.update(zip((param.id for param in stepped), after, strict=True))
            self._paths.update((param.id, param.path) for param in stepped)
            self._ranks.update((param.id, param.tensor.dim()) for param in stepped)
            self._last = (stepped, after)
        return module

    def to_record(self) -> Record:
        """All states, copying nothing: `<id>.<field>` tensors and values, and the path of each id.

        Its layout makes it fit every format, Burn's included. Under `fully_shard` the states are DTensors, divided as
        their parameters: `DistributedRecorder` saves them.

        Raises:
            RecordError: a state holds something that has no place in a record.
        """
        tensors: dict[str, Tensor] = {}
        values: dict[str, Any] = {}
        for param_id, state in self._states.items():
            state_tensors, state_values = flatten(divided_state(state, self._divisions.get(param_id)))
            tensors |= {f"{param_id}.{name}": tensor for name, tensor in state_tensors.items()}
            values |= {f"{param_id}.{name}": value for name, value in state_values.items()}
        return Record(
            tensors=tensors,
            values={
                "states": values,
                "paths": {str(param_id): self._paths[param_id] for param_id in self._states if param_id in self._paths},
            },
            source=f"the record of {type(self.optimizer).__name__}",
            layout=self._layout(),
        )

    def _layout(self) -> Any:
        state = layout_of_type(self.optimizer.state_type)
        if state is None or not self._ranks.keys() >= self._states.keys():
            return None
        if not self._states:
            return {"$map": {"$state": state}}
        return {str(param_id): {"$state": state, "rank": self._ranks[param_id]} for param_id in self._states}

    def record_layout(self) -> Any:
        """The layout of this optimizer's records, for `open_record` of files that carry no names (Burn's `.bin`).

        Raises:
            RecordError: the state's declared types don't say it.
        """
        state = layout_of_type(self.optimizer.state_type)
        if state is None:
            name = self.optimizer.state_type.__name__
            raise RecordError(f"the layout of {name} can't be told from its types; declare the type of each field")
        return {"$map": {"$state": state}}

    def load_record(
        self,
        record: Record,
        module: nn.Module | None = None,
        *,
        report: LoadReport | None = None,
        allow_unused: bool = False,
    ) -> "OptimizerAdaptor[State]":
        """Replace all states by those of `record`, each tensor in the dtype it was saved in; returns the optimizer.

        What became of each state is in `load_report`.

        Args:
            record: what `to_record` gave, or what Burn saved.
            module: the module to be trained: each state goes to the parameter of its id, and where the module has none
                of it, to that of its path. None keeps the ids of the record.
            report: that of the module's load: where it renamed parameters or gave them other ids, the states follow.
            allow_unused: drop states that belong to no parameter of `module`, which is an error otherwise.

        Raises:
            RecordMismatchError: the record is not one of this kind of optimizer, or does not fit the module; the states
                are as before.
            RecordIOError: its file can't be read; likewise.
        """
        targets = None if module is None else [Target(param, param.id) for param in params(module, "weight")]
        self.take_states(self.read_states(record, targets, report=report, allow_unused=allow_unused))
        return self

    def read_states(
        self,
        record: Record,
        targets: Sequence[Target] | None,
        *,
        report: LoadReport | None = None,
        allow_unused: bool = False,
    ) -> "LoadedStates[State]":
        """What `load_record` is about to put in place, for a load of several parts that is to happen whole or not.

        Args:
            record: see `load_record`.
            targets: the parameters with the ids that they will have; None keeps those of the record.
            report: see `load_record`.
            allow_unused: see `load_record`.

        Raises:
            RecordMismatchError, RecordIOError: see `load_record`.
        """
        entries = entries_of(record)
        if targets is None:
            ids = {} if report is None else report.ids
            for entry in entries:
                entry.id = ids.get(entry.id, entry.id)
            matches = [Match(entry, None) for entry in entries]
            found = OptimizerLoadReport(by_id=[entry.path or str(entry.id) for entry in entries])
        else:
            matches, found = match_entries(entries, targets, report)
            if not allow_unused:
                refuse_orphans(entries, found, targets, record.source)
            found = replace(found, mismatched=[*self._mismatches(matches, record)])
            refuse_mismatched(found, record.source)
        loaded = LoadedStates[State](report=found)
        for entry, target in matches:
            param_id = entry.id if target is None else target.id
            state, rank = self._state_of(entry, target, record)
            loaded.states[param_id] = state
            if target is not None:
                loaded.divisions[param_id] = division_of(target.param.tensor)
            path = entry.path if target is None else target.param.path
            if path is not None:
                loaded.paths[param_id] = path
            if rank is not None:
                loaded.ranks[param_id] = rank
        return loaded

    def take_states(self, loaded: "LoadedStates[State]") -> None:
        """Put what `read_states` gave in the place of all states."""
        self._states, self._paths, self._ranks = loaded.states, loaded.paths, loaded.ranks
        self._divisions = loaded.divisions
        self._last = (None, ())
        self.load_report = loaded.report

    def _mismatches(self, matches: Sequence[Match], record: Record) -> Iterator[Mismatch]:
        for entry, target in matches:
            if target is None:
                continue
            tensor = target.param.tensor
            for part, name in entry.tensors.items():
                shape = shape_of(record.tensors, name)
                wanted = {self.optimizer.state_shape(part, it) for it in (tensor.shape, local(tensor).shape)}
                if shape and None not in wanted and shape not in wanted:
                    expected = " or ".join(str(list(it)) for it in wanted if it is not None)
                    yield Mismatch(f"{target.param.path}, {part}", expected, str(list(shape)))

    def _state_of(self, entry: StateEntry, target: Target | None, record: Record) -> tuple[State, int | None]:
        """The state, on the device of its parameter, and the parameter's rank if that is known."""
        tensors = tensors_of(entry, record)
        try:
            state = unflatten(self.optimizer.state_type, tensors, entry.values)
        except RecordMismatchError as error:
            raise RecordMismatchError(
                f"the state of {entry} in {record.source} is none of {type(self.optimizer).__name__}: {error}"
            ) from error
        if target is not None:
            tensor = target.param.tensor
            device = tensor.device
            state = local_state(state, tensor)
            return state if tensor.is_meta else map_tensors(state, lambda it: it.to(device)), tensor.dim()
        ranks = [tensor.dim() for tensor in tensors.values()]
        return state, entry.rank if entry.rank is not None else max(ranks, default=None)


@dataclass(slots=True)
class LoadedStates(Generic[State]):
    """States that were read and are to be taken over.

    Attributes:
        report: what became of each.
        states: the states.
        paths: of their parameters.
        ranks: dimensions of their parameters.
        divisions: how those of them that are divided among ranks are divided.
    """

    report: OptimizerLoadReport
    states: dict[ParamId, State] = field(default_factory=dict)
    paths: dict[ParamId, str] = field(default_factory=dict)
    ranks: dict[ParamId, int] = field(default_factory=dict)
    divisions: dict[ParamId, Division | None] = field(default_factory=dict)
