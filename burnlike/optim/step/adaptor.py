"""OptimizerAdaptor: a SimpleOptimizer for whole modules, its states kept by ParamId, saved as records and loaded."""

import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic, Self, TypeVar

import torch
from torch import Tensor, nn

from ..._torch_compat import foreach
from ..._torch_compat.fsdp import reshard
from ...errors import ConfigError, RecordError, RecordMismatchError
from ...module import Param, ParamGroup, params
from ...module.tree.walk import weights, weights_and_tensors
from ...record import LoadReport, Record
from ...record.pytree import layout_of_type
from ..core.gradient_transform import check_alike, meshes_of
from ..core.sharded import OtherStages, local
from ..gradients.configs import GradientClipping
from ..gradients.gradients import GradientsParams
from ..optimizer import Module, Optimizer, step_arguments_error
from ..rules.rule_set import OptimizerGroup, RuleSet
from ..rules.simple_optimizer import SimpleOptimizer
from ..schedules.learning_rates import BASE, ModuleLearningRate, checked_rate, last_match
from ..states.matching import OptimizerLoadReport, StateOwner, laid_out
from ..states.persistence import KeptStates, read_states
from ..states.torch_records import as_adaptors
from .batches import (
    Copies,
    ParamBatch,
    SkippedSteps,
    batches_of,
    can_skip_on_device,
    check_copied,
    check_gradients,
    copies_of,
    plan_step,
    real_parts,
    step_batch,
    stepped_in,
    tensors_of,
    tensors_of_copies,
    totals_over_stages,
)

State = TypeVar("State")

_NOTHING = (None, None, None)


class OptimizerAdaptor(Optimizer, Generic[State]):
    """Applies update rules to every parameter that has a gradient.

    State follows a parameter by its ParamId: through reordering and renaming of layers, freezing, replacement of the
    tensor, and saving. Nothing happens to a parameter without a gradient: no decay, no state, no count of steps.

    Attributes:
        rules: the rule, clipping and factor of the rate of each parameter.
        maximize: whether steps go up the gradient.
        skip_non_finite: whether a step with a gradient that is not finite changes nothing.
        stochastic_rounding: whether values that are stored in 16 or 8 bits are rounded stochastically.
        other_stages: where this process has some stages of a model, and others the rest.
    """

    def __init__(
        self,
        optimizer: SimpleOptimizer[State] | None,
        grad_clipping: GradientClipping | None = None,
        groups: Sequence[OptimizerGroup] = (),
        *,
        maximize: bool = False,
        skip_non_finite: bool = False,
        stochastic_rounding: bool = False,
    ) -> None:
        """Make an optimizer without states: a rule, or None, for parameters that are in no group, and groups.

        Of several groups that match a parameter the last counts. Stochastic rounding of a rule without a kernel is a
        ConfigError.
        """
        self.rules = RuleSet(optimizer, grad_clipping, tuple(groups))
        self._kept = KeptStates()
        self.maximize = maximize
        self.skip_non_finite = skip_non_finite
        self.stochastic_rounding = stochastic_rounding
        if stochastic_rounding:
            self.rules.check_stochastic()
        self._copies: Copies = {}
        self._skipped = SkippedSteps()
        # What was stepped last, where, with which groups of rates: while these stay, a step looks nothing up.
        self._last: tuple[Any, Any, Any] = _NOTHING
        self._followed: Any = None  # the rules that the batches have theirs of
        self._batches: Sequence[ParamBatch] = []
        self._checked: Any = None
        self.other_stages: OtherStages | None = None
        self._meshes: tuple[Any, list[Any]] = (None, [])  # of what was stepped last

    @property
    def skipped_steps(self) -> int:
        """The number of steps skipped because a gradient was not finite; on CUDA it waits for the last step."""
        self._take_back_skipped()
        return self._skipped.count

    def with_grad_clipping(self, grad_clipping: GradientClipping | None) -> Self:
        """Set the clipping of gradients; returns the optimizer. ConfigError if there are states already."""
        self._refuse_late("gradient clipping")
        self.rules = replace(self.rules, grad_clipping=grad_clipping)
        return self

    def with_group(
        self,
        group: ParamGroup,
        optimizer: SimpleOptimizer[Any],
        grad_clipping: GradientClipping | None = None,
        lr_factor: float = 1.0,
    ) -> Self:
        """Add a group, which takes precedence over the existing ones; see `OptimizerGroup`. Returns the optimizer.

        It is a ConfigError if there are states already, or stochastic rounding is on, and the rule has no kernel.
        """
        self._refuse_late("a parameter group")
        added = OptimizerGroup(group, optimizer, grad_clipping, lr_factor)
        rules = replace(self.rules, groups=(*self.rules.groups, added))
        if self.stochastic_rounding:
            rules.check_stochastic()
        self.rules = rules
        return self

    def with_copies(self, module: nn.Module, copies: nn.Module) -> Self:
        """Write the new weights of `module` into those of `copies` in each step, rounded to their dtypes; returns the
        optimizer.

        `copies` has the same paths and shapes, for example in bfloat16 for the forward pass; ConfigError if it has not.
        """
        self._copies = copies_of(module, copies)
        return self

    def check(self, module: nn.Module) -> None:
        """Raise ConfigError for a module that this optimizer can't train, as the first step would."""
        of_module = weights(module)
        if self._checked is not of_module:
            self.rules.check(module, is_whole=self.other_stages is None)
            self._checked = of_module

    @torch.no_grad()
    def step(
        self,
        lr: float | ModuleLearningRate,
        module: Module,
        grads: GradientsParams,
        *,
        loss_scale: float | Tensor | None = None,
        found_inf: Tensor | None = None,
        zero_grads: bool = False,
    ) -> Module:
        """Update `module` in place with the gradients and return it; under `fully_shard`, this rank's parts.

        Args:
            grads: of `module`; they may be used again (Burn consumes them).
            loss_scale: the factor of the loss; gradients are divided by it first.
            found_inf: float32 with one value: if it is not 0, the step changes nothing.
            zero_grads: zero the gradients in the same pass.

        Raises:
            ShapeError, DTypeError, DeviceError: a gradient or state does not fit its parameter; nothing has changed.
            ConfigError: see `check`; or a parameter has no copy, see `with_copies`.
            ArgumentError: no module, or no GradientsParams; the rate is negative or not finite, the loss scale no
                positive number, all gradients are of other modules, ranks have those of other parameters, or
                the weights are those to evaluate with.
        """
        if not isinstance(grads, GradientsParams) or not isinstance(module, nn.Module):
            raise step_arguments_error(module, grads)
        # Which parameters: those with a gradient. Ranks that divide them have to agree.
        stepped, values = grads.lists()
        of_module = weights_and_tensors(module)
        if self._meshes[0] is not of_module[0]:
            self._meshes = of_module[0], meshes_of(of_module[0])
        # Else they would wait for ever. Ranks on GPUs are not asked: each step would have to wait for the device.
        if self._meshes[1] and (self.skip_non_finite or self.rules.is_collective):
            check_alike(self._meshes[1], stepped)
        if not stepped:
            if self.other_stages is not None:
                totals_over_stages([], [], self.rules, self.other_stages)
            return self._without_gradients(module)
        # Their tensors, rates and gradients by batches: the parameters of one group, device and rate.
        tensors = self._tensors_of(module, of_module, stepped, lr)
        batches, has_complex = self._batches, False
        rates: list[float] = []
        batch_grads: list[Sequence[Tensor]] = []
        for batch in batches:
            rate = checked_rate(lr.at(batch.rate) if isinstance(lr, ModuleLearningRate) else lr)
            rates.append(rate * batch.lr_factor)
            is_all = len(batch.places) == len(values)
            batch_grads.append(values if is_all else [values[place] for place in batch.places])
            has_complex = has_complex or batch.has_complex
        if has_complex:
            tensors, batch_grads = real_parts(batches, tensors, batch_grads)
        # A fused rule checks all of its batch before it writes. With several batches the first one would be written
        # when the second is refused, so all are checked here.
        if len(batches) > 1 or not batches[0].rule.fused:
            check_gradients(batches, tensors, batch_grads)
            for batch in batches:
                batch.rule.check_states(batch.states)
        # What is done beside the formula: unscaling, clipping, rounding, skipping.
        try:
            options, skip = plan_step(
                batches,
                batch_grads,
                self.rules,
                self.other_stages,
                maximize=self.maximize,
                skip_non_finite=self.skip_non_finite,
                loss_scale=loss_scale,
                found_inf=found_inf,
                zero_grads=zero_grads,
                seed=(self._kept.random_step + 1) << 16 if self.stochastic_rounding else None,
            )
        except Exception:  # by a gradient that no sum of squares takes: an error with its parameter's name is better
            check_gradients(batches, tensors, batch_grads)
            raise
        # A rule without a kernel has to know now, which waits for the device.
        if skip is not None and not can_skip_on_device(batches):
            if bool(skip):
                self._skipped.count += 1
                if zero_grads:
                    foreach.zero_(list(values))
                return module
            skip = None
        # The update. Gathered copies of sharded parameters would keep the old values.
        for batch, some in zip(batches, tensors, strict=True):
            if batch.sharded:
                reshard(some)
        for batch, rate, some, its_grads, its_options in zip(
            batches, rates, tensors, batch_grads, options, strict=True
        ):
            if skip is not None:
                its_options = replace(its_options, skip=skip.to(batch.device), skipped=self._skipped.on[batch.device])
            if self._copies:
                its_options = replace(its_options, copies=tensors_of_copies(self._copies, batch.params))
            self._keep(batch, step_batch(batch, rate, some, its_grads, its_options))
        if skip is not None:
            self._skipped.add(skip)
        if self.stochastic_rounding:
            self._kept.random_step += 1
        return module

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

    def use_eval_weights(self, module: nn.Module) -> bool:
        return self._put_weights(module, to_evaluate=True)

    def use_training_weights(self, module: nn.Module) -> bool:
        return self._put_weights(module, to_evaluate=False)

    @torch.no_grad()
    def _put_weights(self, module: nn.Module, *, to_evaluate: bool) -> bool:
        """Put the weights to evaluate or to train with into `module` and into their copies; True if any changed."""
        self._take_back_skipped()
        changed, kept, rules = False, self._kept, self.rules
        every = params(module, "weight")
        reshard(param.tensor for param in every)
        for param in every:
            state = kept.states.get(param.id)
            if state is None:
                continue
            rule = rules.rule(last_match(rules.group_params, param))
            state = kept.states[param.id] = kept.own_part(param.id, param.tensor, state, rule)
            part = local(param.tensor.detach())
            put = rule.put_eval_weights if to_evaluate else rule.put_training_weights
            if put(part, state):
                changed = True
                if param.id in self._copies:
                    tensors_of_copies(self._copies, [param])[0].copy_(part)
        if changed:
            self._forget_batches()
        return changed

    def _tensors_of(
        self, module: nn.Module, of_module: Any, stepped: Sequence[Param], lr: float | ModuleLearningRate
    ) -> list[list[Tensor]]:
        rate_groups = lr.groups if isinstance(lr, ModuleLearningRate) else None
        last_stepped, last_module, last_rate_groups = self._last
        # Where some have no gradient, the list is another one each time.
        same = stepped is last_stepped or stepped == last_stepped
        if not same or last_module() is not module or rate_groups != last_rate_groups:
            self._prepare(module, stepped, lr)
            # The module weakly: the optimizer may outlive it.
            self._last = (stepped, weakref.ref(module), rate_groups)
        elif self._followed is not self.rules:  # an option of a group was written
            for batch in self._batches:
                batch.follow(self.rules)
            self._followed = self.rules
        tensors = tensors_of(self._batches, *of_module)
        # A module that was moved has its tensors on another device, under the same Params.
        for batch, some in zip(self._batches, tensors, strict=True):
            first = local(some[0]) if batch.sharded else some[0]
            if first.device != batch.device:
                self._prepare(module, stepped, lr)
                return tensors_of(self._batches, *of_module)
        return tensors

    def _prepare(self, module: nn.Module, stepped: Sequence[Param], lr: float | ModuleLearningRate) -> None:
        """Divide the parameters of a step into batches, with their states as the rules take them."""
        self.check(module)
        if isinstance(lr, ModuleLearningRate) and lr.groups != self._last[2] and self.other_stages is None:
            lr.check(module)
        self._place_states(module)
        placed = stepped_in(module, stepped)
        check_copied(self._copies, [param for _, param in placed])
        self._take_back_skipped()
        self._batches, self._followed = batches_of(placed, self.rules, lr), self.rules
        self._skipped.watch(self._batches)
        for batch in self._batches:
            batch.set_states(
                [self._kept.own_part(it.id, it.tensor, self._kept.of(it), batch.rule) for it in batch.params]
            )

    def _keep(self, batch: ParamBatch, states: Sequence[Any]) -> None:
        if states is batch.states and not batch.has_complex:
            return
        batch.states = states
        for param, state in zip(batch.params, batch.states_to_keep(), strict=True):
            if state is not None:
                self._kept.states[param.id] = state
                self._kept.note(param, param.id)

    def __getstate__(self) -> dict[str, Any]:
        """The content of copies and pickles: everything but what belongs to the module, `with_copies` included."""
        self._take_back_skipped()
        # A copy is for another module: with these it would go on to step the parameters of the first one.
        fresh: dict[str, Any] = {
            "_copies": {},
            "_last": _NOTHING,
            "_batches": [],
            "_followed": None,
            "_checked": None,
            "_meshes": (None, []),
        }
        fresh["_kept"] = replace(self._kept, layouts=self._kept.how_they_lie(), modules=())
        return {**self.__dict__, **fresh}

    def _take_back_skipped(self) -> None:
        self._skipped.take_back(self._batches)

    def _forget_batches(self) -> None:
        self._last, self._batches = _NOTHING, []
        self._skipped.watch(())

    def _refuse_late(self, what: str) -> None:
        if self._kept.states:
            raise ConfigError(
                f"{what} was set after the optimizer has states; set it before the first step and before load_record"
            )
