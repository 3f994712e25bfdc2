"""TorchOptimizer: an optimizer of burnlike behind torch's interface."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, Literal, Self, TypeVar

import torch
from torch import Tensor, nn

from .._torch_compat.fsdp import sharded_form
from .._torch_compat.optimizers import after_pre_hooks, run_post_hooks
from ..config import OptimizerConfig
from ..errors import ConfigError
from ..module import Param
from ..module.tree.walk import weights_and_tensors
from ..optim import (
    GradientsParams,
    Lbfgs,
    LbfgsConfig,
    ModuleLearningRate,
    Optimizer,
    OptimizerAdaptor,
    OptimizerLoadReport,
)
from ..optim.schedules.learning_rates import checked_rate
from ..optim.states.matching import StateOwner, noted_layouts
from ..optim.states.torch_records import read_torch_record, torch_record, trained_by
from ..record import LoadReport, Record
from ..record.methods import RecordMethods
from .torch_groups import (
    OPTIONS,
    GroupRule,
    LiveStates,
    Members,
    common_options,
    group_in_config,
    groups_of,
    members_of,
    own_rule,
    refuse_sparse,
    rule_set,
)
from .torch_module_optimizer import TorchLbfgs, TorchModuleOptimizer
from .torch_states import (
    from_torch_dict,
    is_of_torch,
    options_for,
    plain_state_dict,
    read_state_dict,
    to_torch_dict,
    warn_of_left_out,
)

# What torch's own optimizers say of how they compute; looked up by libraries, of no effect here.
_INERT = {"foreach": None, "fused": None, "capturable": False, "differentiable": False}

F = TypeVar("F", bound=Callable[..., Any])


def not_compiled(function: F) -> F:
    return torch.compiler.disable(function)  # pyright: ignore[reportReturnType] - its types don't say it


class TorchOptimizer(RecordMethods, torch.optim.Optimizer):
    """A `torch.optim.Optimizer` over an OptimizerAdaptor, for code that knows torch's interface only.

    Schedulers, hooks, closures, `GradScaler`, `torch.distributed.checkpoint`, Lightning, Accelerate and the Trainer of
    Hugging Face work with it as with torch's own. States follow the ids of parameters: `state_dict` has torch's layout
    with names and ids beside, `load_state_dict` goes by id, then by name, never by index alone.

    `param_groups` has a group for each group of the config that has parameters, the base first, each with `lr`,
    `params`, `param_names`, `param_ids`, and those of torch's options `weight_decay`, `betas`, `eps`, `momentum` and
    `alpha` that its rule has; a value written into a group takes effect in the next step. Parameters that are moved,
    cast or wrapped by `fully_shard` after construction are found again by their ids. A step is not compiled:
    `torch.compile` calls it as it is. An LbfgsConfig gives a TorchLbfgs.

    Example:
        >>> from burnlike.optim import AdamWConfig
        >>> layer = nn.Linear(2, 1)
        >>> optimizer = TorchOptimizer(layer, AdamWConfig(), lr=1e-3)
        >>> layer(torch.ones(2)).sum().backward()
        >>> optimizer.step()
        >>> optimizer.param_groups[0]["param_names"]
        ['weight', 'bias']
    """

    def __new__(cls, *args: Any, **options: Any) -> "TorchOptimizer":
        """An object of this class, or one of those for an optimizer that has no rule for single parameters."""
        for module in (*args[:1], *(option for name, option in options.items() if name == "module")):
            if not isinstance(module, nn.Module):
                got = type(module).__name__
                raise TypeError(
                    f"TorchOptimizer: expected the module, not its parameters, as first argument, got a {got}: write"
                    " TorchOptimizer(model, AdamWConfig(), lr=1e-3); `params=` names some of its parameters"
                )
        other = _of_whole_modules(cls, args, options)
        return super().__new__(cls) if other is None else other

    def __init__(
        self,
        module: nn.Module,
        config: OptimizerConfig | Optimizer,
        lr: float,
        params: Any = None,
        *,
        unscale_in_step: bool = True,
    ) -> None:
        """Make the optimizer of `module`.

        Args:
            module: what is trained; its frozen parameters are in the groups, too, and are left alone until they have a
                gradient.
            config: the optimizer, or an OptimizerAdaptor, which then belongs to this object. Of an `Optimizer` of your
                own a TorchModuleOptimizer is made.
            lr: learning rate; a group of the config starts with it times its `lr_factor`.
            params: what of the module is trained, as torch's optimizers take it: parameters, pairs of name and
                parameter, or dicts with `params` and options; None is all.
            unscale_in_step: whether a `GradScaler` leaves gradients scaled, and overflows to be found, to the step, as
                torch's fused optimizers have it. False: it does that before, in passes of its own, and does not call
                `step` on an overflow. Lightning clips gradients of float16 only then, and Accelerate then knows of
                steps that were skipped.

        Raises:
            ConfigError: a group of the config matches no parameter, a rule can't update one of them, or `params` has
                what is not the module's, or options that can't be set there.
            ArgumentError: the rate is negative or not finite, or there is nothing to train.
        """
        if not isinstance(module, nn.Module):
            raise TypeError(
                "TorchOptimizer: expected the torch.nn.Module that is trained, not parameters alone, as"
                f" ZeroRedundancyOptimizer gives them, got a {type(module).__name__}; under fully_shard its states are"
                " divided among the processes"
            )
        adaptor = config.init() if isinstance(config, OptimizerConfig) else config
        if not isinstance(adaptor, OptimizerAdaptor):
            raise ConfigError(
                "TorchOptimizer: expected the config of an optimizer with a rule for each parameter, such as"
                f" AdamWConfig(), or its OptimizerAdaptor, got {config!r:.80}"
            )
        # GradScaler then leaves scale and overflow to step().
        self._step_supports_amp_scaling = unscale_in_step
        checked_rate(lr)
        adaptor.check(module)
        self._module, self._adaptor = module, adaptor
        self._configured = adaptor.rules
        self._rules: list[GroupRule] = []
        self._members = Members()
        defaults = {"lr": lr, "maximize": adaptor.maximize, **_INERT, **common_options(adaptor.rules)}
        super().__init__(groups_of(adaptor.rules, module, lr, params), defaults)
        self._sync()

    @property
    def adaptor(self) -> OptimizerAdaptor[Any]:
        """The OptimizerAdaptor that steps and keeps the states."""
        self._sync()
        return self._adaptor

    @property
    def load_report(self) -> OptimizerLoadReport | None:
        """The report of the last load; None before."""
        return self._adaptor.load_report

    @property
    def state(self) -> LiveStates:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The states by parameter: the tensors that steps update, which an assignment replaces."""
        return LiveStates(self._adaptor, self._param_of, self._all_members)

    @state.setter
    def state(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, states: Mapping[Tensor, Mapping[str, Any]]
    ) -> None:
        if "param_groups" not in self.__dict__:  # torch's constructor sets an empty one; the adaptor may have states
            return
        self.state.replace_all(states)

    @not_compiled
    @torch.optim.Optimizer.profile_hook_step
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Update the parameters that have a gradient, which they keep.

        A `GradScaler` that steps this optimizer hands over its scale and whether it found inf or NaN: gradients are
        unscaled, or the step is skipped, in the pass that updates.

        Args:
            closure: computes the loss, which is returned, and the gradients anew.

        Raises:
            ShapeError, DTypeError, DeviceError, ArgumentError: a gradient does not fit its parameter, or is sparse;
                nothing has changed.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._sync()
        params, grads = self._with_gradients()
        # GradScaler sets both before it calls a step that unscales.
        scaling: dict[str, Any] = {
            "loss_scale": getattr(self, "grad_scale", None),
            "found_inf": getattr(self, "found_inf", None),
        }
        try:
            gradients = GradientsParams.with_params(params, grads)
            self._adaptor.step(self._rates(), self._module, gradients, **scaling)
        except Exception:
            refuse_sparse(params, grads)  # says it in the words of torch's optimizers
            raise
        return loss

    step.hooked = True  # pyright: ignore[reportFunctionMemberAccess] - or torch would put the hooks around it again

    def _with_gradients(self) -> tuple[Sequence[Param], list[Tensor]]:
        """The parameters of the groups that have a gradient, and the gradients."""
        grads: list[Tensor] = []
        missing = set[int]()
        place = 0
        for group in self.param_groups:
            for tensor in group["params"]:
                if (grad := tensor.grad) is None:
                    missing.add(place)
                else:
                    grads.append(grad)
                place += 1
        params = self._members.params
        if missing:
            params = [param for place, param in enumerate(params) if place not in missing]
        return params, grads

    @not_compiled
    def zero_grad(self, set_to_none: bool = True) -> None:
        self._sync()
        if not set_to_none:
            super().zero_grad(set_to_none)
            return
        for group in self.param_groups:
            for tensor in group["params"]:
                tensor.grad = None

    def state_dict(self, *, form: Literal["burnlike", "torch"] = "burnlike") -> dict[str, Any]:
        """The states and groups in torch's layout, with names and ids of parameters beside; copies nothing.

        `torch.save` keeps it, and `torch.load(weights_only=True)` reads it.

        The `form` `torch` is what torch's Adam, AdamW, SGD, RMSprop or Adagrad loads, if it has the same parameters in
        the same order, which lie as this module's; for other rules it is a RecordMismatchError. For a twin of
        the module (`to_torch`) it is `export_torch_optimizer(optimizer.adaptor.into_record(), theirs, twin)`.
        """
        self._sync()
        if form == "torch":
            return to_torch_dict(
                self._adaptor, self.param_groups, self._members.params, [rule.rule for rule in self._rules]
            )
        return plain_state_dict(super().state_dict(), self._adaptor.random_step, noted_layouts([self._module]))

    def into_record(self) -> Record:
        """States and options of groups, by the names of the module's parameters; copies nothing."""
        self._sync()
        return torch_record(self, self._module)

    @not_compiled
    def load_record(self, record: Record, *, report: LoadReport | None = None, prune_orphans: bool = False) -> Self:
        """Replace states, and options of groups where the record has them; `load_report` tells what became of each.

        Args:
            record: what `into_record` gave, here or of an OptimizerAdaptor with the same rules, which has no options;
                or the record of one of torch's own optimizers, whose options are not taken over.
            report: that of the module's load, see `load_state_dict`.
            prune_orphans: drop states of parameters that it doesn't train, which is an error otherwise.

        Raises:
            RecordMismatchError, RecordIOError: it does not fit, or its file can't be read; nothing has changed.
        """
        self._sync()
        record = Record.of(record)
        if record.values.get("optimizer") == type(self).__name__:
            targets = trained_by(self, [self._module])
            read_torch_record(self, record, targets, [self._module], report, prune_orphans).apply(self)
        else:
            targets = [StateOwner(param, param.id) for param in self._members.params]
            modules = [self._module]
            loaded = self._adaptor.read_states(record, targets, modules, report=report, prune_orphans=prune_orphans)
            self._adaptor.take_states(loaded)
        return self

    @not_compiled
    def load_state_dict(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        state_dict: Mapping[str, Any],
        *,
        report: LoadReport | None = None,
        prune_orphans: bool = False,
        keep_options: bool = False,
    ) -> None:
        """Replace states and options of groups by those of `state_dict`, each tensor in the dtype it has there.

        A state goes to the parameter of its id, and where there is none, to that of its name; see `load_report`. It is
        laid out as that: transposed, split or joined as `from_torch` and `to_torch` do it with the weight. States
        of frozen parameters, which `torch.distributed.checkpoint.state_dict` leaves out, stay as they are. A warning
        names states that the dict should have and lacks.

        Args:
            state_dict: what `state_dict` gave, or `torch.distributed.checkpoint.state_dict` made of it; or that of
                torch's Adam, AdamW, SGD, RMSprop or Adagrad with the same parameters in the same order.
            report: that of the module's load: where it renamed parameters or gave them other ids, the states follow.
            prune_orphans: drop states that belong to no parameter of the groups, which is an error otherwise.
            keep_options: leave `lr` and other options of the groups as they are.

        Raises:
            RecordMismatchError: it names no parameters, does not fit, or is of another optimizer; nothing has changed.
            ConfigError, ArgumentError: an option in it is out of range; likewise.
        """
        self._sync()
        hooked = after_pre_hooks(self, state_dict)
        targets = [StateOwner(param, param.id) for param in self._members.params]
        if of_torch := is_of_torch(hooked):
            rules, maximize = [rule.rule for rule in self._rules], self._adaptor.maximize
            hooked = from_torch_dict(hooked, self.param_groups, self._members.params, rules, maximize)
        saved = read_state_dict(hooked, targets)
        loaded = self._adaptor.read_states(
            saved.record, targets, [self._module], report=report, prune_orphans=prune_orphans, of_torch=of_torch
        )
        groups = [group["param_ids"] for group in self.param_groups]
        options = [{} for _ in groups] if keep_options else options_for(groups, saved, targets, report)
        # torch.distributed.checkpoint leaves their states out of what it saves by name.
        frozen = [parameter for parameter in self._members.params if saved.by_name and not parameter.trainable]
        kept = [(it, state) for it in frozen if (state := self._adaptor.state_of(it)) is not None]
        # All that may raise comes before the states are replaced: a load that fails leaves the optimizer as it was.
        rules = self._rules_for([{**group, **new} for group, new in zip(self.param_groups, options, strict=True)])
        self._adaptor.take_states(loaded)
        for param, state in kept:
            if self._adaptor.state_of(param) is None:
                self._adaptor.set_state(param, state)
        warn_of_left_out(saved, [it.path for it in self._members.params if self._adaptor.state_of(it) is None])
        for group, new in zip(self.param_groups, options, strict=True):
            group.update(new)
        self._take_rules(rules)
        run_post_hooks(self)

    def train(self) -> None:
        """Put the weights to train with back into the module, for rules such as ScheduleFreeAdamW; else nothing."""
        self.adaptor.use_training_weights(self._module)

    def eval(self) -> None:
        """Put the weights to evaluate with into the module, for rules that have such; else nothing."""
        self.adaptor.use_eval_weights(self._module)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Train further parameters of the module, with `lr` and other options of their own.

        Their rule and clipping are those that the config has for them. As torch, it completes `param_group` in place. A
        parameter that is not in the module, or for which the config has several rules, and an option that can't be set,
        is a ConfigError; one that is in a group already a ValueError.
        """
        if not isinstance(param_group, dict) or isinstance(param_group.get("params", ()), set):
            super().add_param_group(param_group)  # which says what is wrong
        members = members_of(self._module, param_group["params"], f"param_groups[{len(self._rules)}]['params']")
        group = group_in_config(self._configured, members)
        rule = own_rule(self._configured, group, self._rules)
        rule = rule.with_options(param_group, self._adaptor.maximize)
        param_group.setdefault("lr", self.defaults["lr"] * self._configured.lr_factor(group))
        checked_rate(param_group["lr"])
        param_group["params"] = [(param.path, param.tensor) for param in members]
        param_group["param_names"] = []  # which torch replaces by the names of the parameters, if there are any
        super().add_param_group(param_group)
        # torch has filled in its defaults, of which this rule may have other values, or none.
        for name in (*OPTIONS, "maximize", *_INERT):
            param_group.pop(name, None)
        param_group |= rule.options
        param_group["param_ids"] = [str(param.id) for param in members]
        self._rules.append(rule)

    def __getstate__(self) -> dict[str, Any]:
        # Without hooks, as in torch.
        ours = ("_module", "_adaptor", "_configured", "_rules", "_step_supports_amp_scaling")
        return {name: self.__dict__[name] for name in ("defaults", "param_groups", *ours)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "_members": Members()})

    def _param_of(self, tensor: Tensor) -> Param | None:
        entry = self._members.by_tensor.get(id(tensor))
        # Where the module still has it, nothing is looked through: programs ask for one after the other.
        try:
            if entry is not None and entry[1].tensor is tensor:
                return entry[1]
        except KeyError:  # the module has nothing of that name any more
            pass
        self._sync()
        entry = self._members.by_tensor.get(id(sharded_form(tensor)))
        return None if entry is None else entry[1]

    def _all_members(self) -> Iterable[tuple[Tensor, Param]]:
        self._sync()
        return self._members.by_tensor.values()

    def _rates(self) -> ModuleLearningRate:
        # torch's LinearLR multiplies its way down to what should be 0, and may end at -1e-18.
        rates: list[float] = []
        for group in self.param_groups:
            if group["params"]:
                rate = float(group["lr"])
                rates.append(0.0 if -1e-12 < rate < 0 else rate)
        return ModuleLearningRate(0.0, self._members.groups, tuple(rates))

    def _sync(self) -> None:
        """Follow what was changed from outside: the module, the lists of parameters, the options."""
        current, _ = weights_and_tensors(self._module)
        # Compared as addresses, by functions in C: it is asked at each step.
        listed = list(map(id, chain.from_iterable(map(itemgetter("params"), self.param_groups))))
        renewed = self._members.module_params is not current or [*self._members.by_tensor] != listed
        if renewed:
            self._members = self._members.found_again(self.param_groups, current)
        has_news = renewed
        for rule, group in zip(self._rules, self.param_groups, strict=True):
            has_news = has_news or not (rule.options.items() <= group.items() and rule.unread.isdisjoint(group))
        if has_news:
            rules = self._rules_for(self.param_groups)
            # betas that are a list are no news
            if renewed or any(new is not old for new, old in zip(rules, self._rules, strict=True)):
                self._take_rules(rules)

    def _rules_for(self, groups: Sequence[Mapping[str, Any]]) -> list[GroupRule]:
        return [
            rule.with_options(group, self._adaptor.maximize) for rule, group in zip(self._rules, groups, strict=True)
        ]

    def _take_rules(self, rules: list[GroupRule]) -> None:
        self._rules = rules
        used = [rule for rule, group in zip(rules, self.param_groups, strict=True) if group["params"]]
        self._adaptor.rules = rule_set(self._configured, used, self._members.groups)


def _of_whole_modules(cls: type, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The optimizer in the place of a TorchOptimizer where it has no rule for single parameters; else None."""
    config = options["config"] if "config" in options else (*args, None, None)[1]
    if cls is not TorchOptimizer or isinstance(config, OptimizerAdaptor):
        return None
    if isinstance(config, LbfgsConfig | Lbfgs):
        return TorchLbfgs(*args, **options)
    renamed = {"optimizer" if name == "config" else name: option for name, option in options.items()}
    return TorchModuleOptimizer(*args, **renamed) if isinstance(config, Optimizer) else None
