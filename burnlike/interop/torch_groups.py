"""The parameter groups and the states of a TorchOptimizer, as `torch.optim` shows them.

Groups have their parameters, rules, and options under torch's names; states are dicts of fields by parameter.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from .._torch_compat.fsdp import sharded_forms
from ..errors import ArgumentError, ConfigError
from ..module import Param, ParamGroup
from ..module.tree.walk import weights
from ..optim.core.state import flatten, unflatten
from ..optim.gradients.configs import ClipByGlobalNorm
from ..optim.rules.config_base import ModuleOptimizerConfig, MomentumConfig
from ..optim.rules.rule_set import OptimizerGroup, RuleSet
from ..optim.rules.simple_optimizer import SimpleOptimizer
from ..optim.schedules.learning_rates import BASE, last_match
from ..optim.step.adaptor import OptimizerAdaptor

Options = dict[str, Any]

_BETAS = ("beta_1", "beta_2", "beta_3")
_FIELD_OF = {"weight_decay": "weight_decay", "eps": "epsilon", "alpha": "alpha"}
# What torch's optimizers take in a group and what is of the whole optimizer here, or of the form of its states.
_OF_CONFIG = {"maximize", "amsgrad", "centered", "dampening", "nesterov", "lr_decay", "lr_factor"}
OPTIONS = (*_FIELD_OF, "betas", "momentum")
"""The options that groups may have beside `lr`."""


@dataclass(frozen=True, slots=True)
class GroupRule:
    """The rule of the parameters of one of torch's groups.

    Attributes:
        group: place of its group in the config, or BASE.
        rule: of this group alone: rules keep what they prepared for their parameters.
        options: by torch's names.
        unread: names of options that a group can't set.
    """

    group: int
    rule: SimpleOptimizer[Any]
    options: Options
    unread: frozenset[str]

    @classmethod
    def of(cls, group: int, rule: SimpleOptimizer[Any]) -> "GroupRule":
        options, config = options_of(rule), _config_of(rule)
        fields = () if config is None else config.__struct_fields__
        return cls(group, rule, options, frozenset({*_OF_CONFIG, *fields, *OPTIONS} - options.keys()))

    def with_options(self, group: Mapping[str, Any], maximize: bool) -> "GroupRule":
        """This one with the options of one of torch's groups, or itself where they are the same.

        An option that a group can't set is a ConfigError, but for a `maximize` that is the optimizer's; other keys are
        the program's own.
        """
        rule = with_options(self.rule, {name: group[name] for name in OPTIONS if group.get(name) is not None})
        for name in sorted(self.unread.intersection(group)):
            if name not in OPTIONS and (name != "maximize" or bool(group[name]) != maximize):
                raise ConfigError(
                    f"TorchOptimizer: '{name}' can't be set in a group; set it in the config. Groups take lr,"
                    f" {', '.join(OPTIONS)}"
                )
        return self if rule is self.rule else GroupRule.of(self.group, rule)


def common_options(rules: RuleSet) -> Options:
    """The options that all rules have, with the values that the first one has."""
    first, *others = map(options_of, rules.rules)
    return {name: value for name, value in first.items() if all(name in other for other in others)}


def own_rule(rules: RuleSet, group: int, taken: Iterable[GroupRule]) -> GroupRule:
    """The rule of a group of the config, an object that no other of torch's groups has."""
    # A copy where another group has it: a rule keeps what it prepared for its parameters.
    rule = rules.rule(group)
    return GroupRule.of(group, copy.copy(rule) if any(it.rule is rule for it in taken) else rule)


def rule_set(configured: RuleSet, rules: Sequence[GroupRule], members: Sequence[ParamGroup]) -> RuleSet:
    """The rules of torch's groups, in place of those of the config."""
    groups = []
    for rule, params in zip(rules, members, strict=True):
        clipping = None if rule.group == BASE else configured.groups[rule.group].grad_clipping
        if isinstance(clipping, ClipByGlobalNorm) and clipping.group is None:
            clipping = clipping.replace(group=f"groups.{rule.group}")  # torch may have it in several groups
        groups.append(OptimizerGroup(params, rule.rule, clipping))
    return replace(configured, groups=tuple(groups))


def groups_of(rules: RuleSet, module: nn.Module, lr: float, params: Any) -> list[dict[str, Any]]:
    """The groups as `add_param_group` takes them, of all parameters by the groups of the config, the base first.

    With `params` of some of them, or of names with parameters, or dicts for groups as torch has them.
    """
    listed = None if params is None else list(params)
    if listed and isinstance(listed[0], Mapping):
        if rules.groups:
            raise ConfigError(
                "TorchOptimizer: both the config and params= have groups; leave the groups out of one of them"
            )
        return [{"lr": lr, **group} for group in listed]
    members = [*weights(module)] if listed is None else members_of(module, listed, "params")
    if not members:
        what = f"{type(module).__name__} has no parameters" if listed is None else "params= has none: nothing is left"
        raise ArgumentError(f"TorchOptimizer: {what} to train")
    by_group: dict[int, list[Param]] = {}
    for param in members:
        by_group.setdefault(last_match(rules.group_params, param), []).append(param)
    return [
        {"params": [param.tensor for param in by_group[group]], "lr": lr * rules.lr_factor(group)}
        for group in sorted(by_group)
    ]


def members_of(module: nn.Module, tensors: Iterable[Any], where: str) -> list[Param]:
    """The parameters of `module` that these tensors, or pairs of a name and a tensor, are; each once."""
    by_address, forms = {id(param.tensor): param for param in weights(module)}, sharded_forms()
    members: dict[int, Param] = {}
    for place, item in enumerate([tensors] if isinstance(tensors, Tensor) else tensors):
        tensor = item[1] if isinstance(item, tuple) else item
        param = by_address.get(id(forms.get(id(tensor), tensor)))
        if param is None:
            raise ConfigError(
                f"TorchOptimizer: {where}[{place}] is no parameter of the {type(module).__name__} that it was made"
                " with: states follow the ids of a module's parameters; add the parameter to the module first"
            )
        members[id(param.tensor)] = param
    return [*members.values()]


@dataclass(frozen=True, slots=True)
class Members:
    """The parameters of the groups, as they were found in the module.

    Attributes:
        params: in the order of the groups.
        groups: the same by ids, for each of torch's groups that has any.
        by_tensor: `id()` of the tensor -> tensor and parameter. That the tensors are held keeps others from getting
            their addresses.
        module_params: all parameters of the module, the object that it gave.
    """

    params: Sequence[Param] = ()
    groups: tuple[ParamGroup, ...] = ()
    by_tensor: dict[int, tuple[Tensor, Param]] = field(default_factory=dict)
    module_params: Sequence[Param] | None = None

    def found_again(self, groups: Sequence[dict[str, Any]], of_module: Sequence[Param]) -> "Members":
        """Put the parameters that the module has now into the groups: by object, else by id, else by path.

        It changes `params`, `param_names` and `param_ids` of the groups. A parameter that the module no longer has is
        left out; a tensor that never was the module's is a ConfigError.
        """
        by_tensor = {id(param.tensor): param for param in of_module}
        by_id = {param.id: param for param in of_module}
        by_path = {param.path: param for param in of_module}
        params: list[Param] = []
        by_ids = []
        taken: set[int] = set()
        for group in groups:
            members = []
            for tensor in group["params"]:
                param = by_tensor.get(id(tensor))
                if param is None and self.module_params is not None:
                    if id(tensor) not in self.by_tensor:
                        raise ConfigError(
                            f"TorchOptimizer: a tensor of shape {list(tensor.shape)} was put into a group, and it is no"
                            " parameter of the module that the optimizer was made with"
                        )
                    before = self.by_tensor[id(tensor)][1]
                    # `.to()` and fully_shard make new tensors of the same id; a load may have given it another id.
                    param = by_id.get(before.id) or by_path.get(before.path)
                # Two that were tied since are one parameter now.
                if param is not None and id(param) not in taken:
                    taken.add(id(param))
                    members.append(param)
            group["params"] = [param.tensor for param in members]
            group["param_names"] = [param.path for param in members]
            group["param_ids"] = [str(param.id) for param in members]
            params += members
            if members:
                by_ids.append(ParamGroup.from_ids(group["param_ids"]))
        by_address = {id(param.tensor): (param.tensor, param) for param in params}
        return Members(params, tuple(by_ids), by_address, of_module)


def group_in_config(rules: RuleSet, members: Sequence[Param]) -> int:
    """The one group of the config that all these parameters are in, or BASE."""
    places = {last_match(rules.group_params, param) for param in members}
    if len(places) > 1:
        raise ConfigError(
            "TorchOptimizer: the parameters of one group are in several groups of the config; add one group for each"
        )
    place = places.pop() if places else BASE
    if place == BASE and rules.base is None:
        raise ConfigError("TorchOptimizer: the parameters of a group are in no group of the config, which has no base")
    return place


def refuse_sparse(params: Sequence[Param], grads: Sequence[Tensor]) -> None:
    """Refuse gradients that are not dense, with an ArgumentError."""
    for param, grad in zip(params, grads, strict=True):
        if grad.layout is not torch.strided:
            raise ArgumentError(
                f"TorchOptimizer: the gradient of '{param.path}' is sparse, and rules here take dense ones; make its"
                " layer with sparse=False. Nothing was changed"
            )


def options_of(rule: SimpleOptimizer[Any]) -> Options:
    """The options that a rule has, with their values; none if it was not made from a config."""
    config = _config_of(rule)
    if config is None:
        return {}
    fields = config.__struct_fields__
    options = {name: getattr(config, field) for name, field in _FIELD_OF.items() if field in fields}
    betas = [field for field in _BETAS if field in fields]
    if betas:
        options["betas"] = tuple(getattr(config, field) for field in betas)
    momentum = getattr(config, "momentum", None)
    if momentum is not None:
        options["momentum"] = momentum.momentum if isinstance(momentum, MomentumConfig) else momentum
    return {name: value for name, value in options.items() if value is not None}


def with_options(rule: SimpleOptimizer[Any], wanted: Mapping[str, Any]) -> SimpleOptimizer[Any]:
    """A rule with other options, or `rule` itself where it has these."""
    current = options_of(rule)
    missing = next((name for name in wanted if name not in current), None)
    if missing is not None:
        raise ConfigError(f"TorchOptimizer: {missing}: {type(rule).__name__} has none")
    # A list has the betas where a program or a file wrote them so.
    changed = {name: it for name, it in wanted.items() if (tuple(it) if isinstance(it, list) else it) != current[name]}
    if not changed:
        return rule
    config = _config_of(rule)
    fields: Options = {}
    for name, value in changed.items():
        if name == "betas":
            if not isinstance(value, list | tuple) or len(value) != len(current[name]):
                expected = f"expected {len(current[name])} numbers for {type(rule).__name__}"
                raise ConfigError(f"TorchOptimizer: betas: {expected}, got {value!r:.80}")
            fields |= {field: _number(name, it) for field, it in zip(_BETAS, value, strict=False)}
        elif name == "momentum" and isinstance(config.momentum, MomentumConfig):
            fields[name] = config.momentum.replace(momentum=_number(name, value))
        else:
            fields[_FIELD_OF.get(name, name)] = _number(name, value)
    return config.replace(**fields).build()


def _config_of(rule: SimpleOptimizer[Any]) -> Any:
    config = getattr(rule, "config", None)
    return config if isinstance(config, ModuleOptimizerConfig) else None


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"TorchOptimizer: {name}: expected a number, got {value!r:.80}") from error


class LiveState(MutableMapping[str, Any]):
    """The fields of one parameter's state, `{"momentum.moment_1": tensor, "momentum.time": 3}`.

    Reading gives the tensors that steps update, writing replaces them. Made from a mapping alone, as libraries do that
    build a copy of the same type, it is a plain mapping.
    """

    def __init__(
        self, fields: Mapping[str, Any] | None = None, of: tuple[OptimizerAdaptor[Any], Param] | None = None
    ) -> None:
        self._fields, self._of = dict(fields or {}), of

    def copy(self) -> dict[str, Any]:
        if self._of is None:
            return dict(self._fields)
        state = self._of[0].state_of(self._of[1])
        if state is None:
            return {}
        tensors, values = flatten(state)
        return {**tensors, **values}

    def _replace(self, fields: dict[str, Any]) -> None:
        self._fields = fields
        if self._of is not None:
            write_fields(*self._of, fields)

    def __getitem__(self, name: str) -> Any:
        return self.copy()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._replace({**self.copy(), name: value})

    def __delitem__(self, name: str) -> None:
        fields = self.copy()
        del fields[name]
        self._replace(fields)

    def __iter__(self) -> Iterator[str]:
        return iter(self.copy())

    def __len__(self) -> int:
        return len(self.copy())

    def __repr__(self) -> str:
        return repr(self.copy())

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return copy.deepcopy(self.copy(), memo)


class LiveStates(MutableMapping[Tensor, Any]):
    """The states of all parameters of an optimizer, by tensor.

    As in torch, one without a state shows an empty dict when it is asked for, and is not listed.
    """

    def __init__(
        self,
        optimizer: OptimizerAdaptor[Any],
        param_of: Callable[[Tensor], Param | None],
        members: Callable[[], Iterable[tuple[Tensor, Param]]],
    ) -> None:
        self._optimizer, self._param_of, self._members = optimizer, param_of, members

    def __getitem__(self, tensor: Tensor) -> LiveState:
        return LiveState(of=(self._optimizer, self._param(tensor)))

    def __setitem__(self, tensor: Tensor, fields: Mapping[str, Any]) -> None:
        write_fields(self._optimizer, self._param(tensor), dict(fields))

    def __delitem__(self, tensor: Tensor) -> None:
        if tensor not in self:
            raise KeyError(tensor)
        self._optimizer.set_state(self._param(tensor), None)

    def __contains__(self, tensor: object) -> bool:
        param = self._param_of(tensor) if isinstance(tensor, Tensor) else None
        return param is not None and self._optimizer.state_of(param) is not None

    def __iter__(self) -> Iterator[Tensor]:
        return iter([it for it, param in self._members() if self._optimizer.state_of(param) is not None])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def get(self, tensor: Tensor, default: Any = None) -> Any:
        return self[tensor] if tensor in self else default  # noqa: SIM401 - a tensor without a state is no KeyError

    def replace_all(self, states: Mapping[Tensor, Mapping[str, Any]]) -> None:
        """Make `states` the states of all parameters: one that is not in it has none then."""
        # A copy: it may be these very states, of which some are deleted below.
        after = dict(states)
        kept = set(map(id, after))
        for tensor in [it for it in self if id(it) not in kept]:
            del self[tensor]
        for tensor, fields in after.items():
            self[tensor] = fields

    def __repr__(self) -> str:
        return repr(dict(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[Tensor, Any]:
        return copy.deepcopy(dict(self), memo)

    def _param(self, tensor: Tensor) -> Param:
        param = self._param_of(tensor)
        if param is None:
            raise KeyError(f"a tensor of shape {list(tensor.shape)} that is in no group of the optimizer")
        return param


def write_fields(optimizer: OptimizerAdaptor[Any], param: Param, fields: Mapping[str, Any]) -> None:
    """Make `fields`, which have to be those of its rule's states, the state of `param`; without any it has none."""
    if not fields:
        optimizer.set_state(param, None)
        return
    wrong = next((name for name in fields if not isinstance(name, str)), None)
    if wrong is not None:
        raise ArgumentError(f"the state of '{param.path}': expected names of fields, got {wrong!r}")
    tensors = {name: value for name, value in fields.items() if isinstance(value, Tensor)}
    values = {name: value for name, value in fields.items() if name not in tensors}
    rule = optimizer.rules.rule_of(param.id, param.path)
    optimizer.set_state(param, unflatten(rule.state_type, tensors, values))
