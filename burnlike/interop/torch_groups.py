"""The parameter groups of a TorchOptimizer: their parameters, rules, and options under torch's names."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from .._torch_compat.fsdp import sharded_forms
from ..errors import ArgumentError, ConfigError
from ..module import Param, ParamGroup
from ..module.tree.walk import weights
from ..optim.gradients.configs import ClipByGlobalNorm
from ..optim.rules.config_base import ModuleOptimizerConfig, MomentumConfig
from ..optim.rules.rule_set import OptimizerGroup, RuleSet
from ..optim.rules.simple_optimizer import SimpleOptimizer
from ..optim.schedules.learning_rates import BASE, last_match

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
    """

    group: int
    rule: SimpleOptimizer[Any]
    options: Options

    @classmethod
    def of(cls, group: int, rule: SimpleOptimizer[Any]) -> "GroupRule":
        return cls(group, rule, options_of(rule))

    def with_options(self, group: Mapping[str, Any]) -> "GroupRule":
        """This one with the options of one of torch's groups, or itself where they are the same."""
        rule = with_options(self.rule, {name: group[name] for name in OPTIONS if group.get(name) is not None})
        return self if rule is self.rule else GroupRule.of(self.group, rule)


def common_options(rules: RuleSet) -> Options:
    """The options that all rules have, with the values that the first one has."""
    first, *others = map(options_of, rules.rules)
    return {name: value for name, value in first.items() if all(name in other for other in others)}


def own_rule(rules: RuleSet, group: int, taken: Iterable[GroupRule]) -> GroupRule:
    """The rule of a group of the config, an object that no other of torch's groups has."""
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
    given = None if params is None else list(params)
    if given and isinstance(given[0], Mapping):
        if rules.groups:
            raise ConfigError(
                "TorchOptimizer: both the config and params= have groups; leave the groups out of one of them"
            )
        return [{"lr": lr, **group} for group in given]
    found = [*weights(module)] if given is None else members_of(module, given, "params")
    if not found:
        what = f"{type(module).__name__} has no parameters" if given is None else "params= has none: nothing is left"
        raise ArgumentError(f"TorchOptimizer: {what} to train")
    by_group: dict[int, list[Param]] = {}
    for param in found:
        by_group.setdefault(last_match(rules.group_params, param), []).append(param)
    return [
        {"params": [param.tensor for param in by_group[group]], "lr": lr * rules.lr_factor(group)}
        for group in sorted(by_group)
    ]


def members_of(module: nn.Module, tensors: Iterable[Any], where: str) -> list[Param]:
    """The parameters of `module` that these tensors, or pairs of a name and a tensor, are; each once."""
    known, forms = {id(param.tensor): param for param in weights(module)}, sharded_forms()
    found: dict[int, Param] = {}
    for place, item in enumerate([tensors] if isinstance(tensors, Tensor) else tensors):
        tensor = item[1] if isinstance(item, tuple) else item
        param = known.get(id(forms.get(id(tensor), tensor)))
        if param is None:
            raise ConfigError(
                f"TorchOptimizer: {where}[{place}] is no parameter of the {type(module).__name__} that it was made"
                " with: states follow the ids of a module's parameters; add the parameter to the module first"
            )
        found[id(param.tensor)] = param
    return [*found.values()]


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
    found = {name: getattr(config, field) for name, field in _FIELD_OF.items() if field in fields}
    betas = [field for field in _BETAS if field in fields]
    if betas:
        found["betas"] = tuple(getattr(config, field) for field in betas)
    momentum = getattr(config, "momentum", None)
    if momentum is not None:
        found["momentum"] = momentum.momentum if isinstance(momentum, MomentumConfig) else momentum
    return {name: value for name, value in found.items() if value is not None}


def with_options(rule: SimpleOptimizer[Any], given: Mapping[str, Any]) -> SimpleOptimizer[Any]:
    """A rule with other options, or `rule` itself where it has these."""
    own = options_of(rule)
    missing = next((name for name in given if name not in own), None)
    if missing is not None:
        raise ConfigError(f"TorchOptimizer: {missing}: {type(rule).__name__} has none")
    changed = {name: it for name, it in given.items() if (tuple(it) if isinstance(it, list) else it) != own[name]}
    if not changed:
        return rule
    config = _config_of(rule)
    fields: Options = {}
    for name, value in changed.items():
        if name == "betas":
            if not isinstance(value, list | tuple) or len(value) != len(own[name]):
                expected = f"expected {len(own[name])} numbers for {type(rule).__name__}"
                raise ConfigError(f"TorchOptimizer: betas: {expected}, got {value!r:.80}")
            fields |= {field: _number(name, it) for field, it in zip(_BETAS, value, strict=False)}
        elif name == "momentum" and isinstance(config.momentum, MomentumConfig):
            fields[name] = config.momentum.replace(momentum=_number(name, value))
        else:
            fields[_FIELD_OF.get(name, name)] = _number(name, value)
    return config.replace(**fields).build()


def refuse_unknown(rule: SimpleOptimizer[Any], group: Mapping[str, Any], maximize: bool) -> None:
    """Refuse options of a rule that a group can't set, with a ConfigError; other keys are the program's own."""
    config = _config_of(rule)
    known = _OF_CONFIG | set(() if config is None else config.__struct_fields__) - {*OPTIONS}
    for name in sorted(known & group.keys()):
        if name != "maximize" or bool(group[name]) != maximize:
            raise ConfigError(
                f"TorchOptimizer: '{name}' can't be set in one of params= or added groups; set it in the config."
                f" Groups take lr, {', '.join(OPTIONS)}"
            )


def _config_of(rule: SimpleOptimizer[Any]) -> Any:
    config = getattr(rule, "config", None)
    return config if isinstance(config, ModuleOptimizerConfig) else None


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"TorchOptimizer: {name}: expected a number, got {value!r:.80}") from error
