"""StatefulOptimizer: keeps the states of an optimizer's rules by ParamId, saves and loads them."""

from collections.abc import Sequence
from typing import Any, Self

from torch import nn

from ...module import Param, params
from ...record import LoadReport, Record
from ..core.sharded import divided_state, division_of, local_state
from ..optimizer import Optimizer
from ..rules.rule_set import RuleSet
from ..schedules.learning_rates import BASE
from .matching import OptimizerLoadReport, StateOwner
from .store import KeptStates, checked_layout, read_states
from .torch_rules import as_adaptors


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
        return divided_state(self._kept.states.get(param.id), self._kept.divisions.get(param.id))

    def set_state(self, param: Param, state: Any) -> None:
        """Put `state`, of the type of the parameter's rule, in place of that of `param`; None drops it.

        Raises:
            TypeError: it is of another type.
        """
        self._take_back_skipped()
        if state is None:
            self._kept.drop(param.id)
        else:
            rule = self.rules.rule_of(param.id, param.path)
            if not isinstance(state, rule.state_type):
                raise TypeError(
                    f"expected a {rule.state_type.__name__} as the state of '{param.path}', got {type(state).__name__}"
                )
            if rule.elementwise:
                state = local_state(state, param.tensor)
                self._kept.divisions[param.id] = division_of(param.tensor)
            self._kept.states[param.id] = state
            self._kept.note(param)
        self._forget_batches()

    def prune_orphans(self, module: nn.Module) -> list[str]:
        """Drop the states of parameters that `module` does not have; returns their paths, or ids where unknown."""
        self._take_back_skipped()
        known = {param.id for param in params(module, "weight")}
        orphans = [param_id for param_id in self._kept.states if param_id not in known]
        names = [self._kept.paths.get(param_id, str(param_id)) for param_id in orphans]
        for param_id in orphans:
            self._kept.drop(param_id)
        self._forget_batches()
        return names

    def into_record(self) -> Record:
        """All states, copying nothing: `<id>.<field>` tensors and values, and the path of each id.

        Its layout makes it fit every format, Burn's included. Under `fully_shard` the states are DTensors, divided as
        their parameters: `DistributedRecorder` saves them.

        Raises:
            RecordError: a state holds something that has no place in a record.
        """
        self._take_back_skipped()
        return self._kept.into_record(self.rules.rule_of, type(self.rules.rules[0]).__name__)

    def record_layout(self) -> Any:
        """The layout of this optimizer's records, for `open_record` of files that carry no names (Burn's `.bin`).

        Raises:
            RecordError: the state's declared types don't say it.
        """
        return checked_layout(self.rules.rule(BASE))

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
            record: what `into_record` gave, what Burn saved, or what `torch_record` gave of one of torch's optimizers
                with the same rule; or a part of a record.
            module: the module to be trained: each state goes to the parameter of its id, and where the module has none
                of it, to that of its path. None keeps the ids of the record.
            report: that of the module's load: where it renamed parameters or gave them other ids, the states follow.
            prune_orphans: drop states that belong to no parameter of `module`, which is an error otherwise.

        Raises:
            RecordMismatchError: the record is not one of this kind of optimizer, or does not fit the module; the states
                are as before.
            RecordIOError: its file can't be read; likewise.
        """
        targets = None if module is None else [StateOwner(param, param.id) for param in params(module, "weight")]
        record = Record.of(record)
        self.take_states(self.read_states(record, targets, report=report, prune_orphans=prune_orphans))
        return self

    def read_states(
        self,
        record: Record,
        targets: Sequence[StateOwner] | None,
        *,
        report: LoadReport | None = None,
        prune_orphans: bool = False,
    ) -> KeptStates:
        """States for `load_record`, checked; nothing is changed yet, so that several parts can be loaded together.

        `targets` are the parameters with the ids that they will have; None keeps those of the record.
        """
        found = as_adaptors(record)
        return read_states(found, targets, self.rules.rule_of, report=report, prune_orphans=prune_orphans)

    def take_states(self, loaded: KeptStates) -> None:
        self._kept = loaded
        self._forget_batches()
