"""The parameter groups of a TorchOptimizer: their parameters and rules."""

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
from ..optim.rules.rule_set import OptimizerGroup, RuleSet
from ..optim.rules.simple_optimizer import SimpleOptimizer
from ..optim.schedules.learning_rates import BASE, last_match
from .group_options import OPTIONS, Options, options_of, with_options


@dataclass(frozen=True, slots=True)
class GroupRule:
    """The rule of the parameters of one of torch's groups.

    Attributes:
        group: place of its group in the config, or BASE.
        rule: of this group alone: rules keep what they prepared for their parameters.
        options: those of the rule, by torch's names.
    """

    group: int
    rule: SimpleOptimizer[Any]
    options: Options

    @classmethod
    def of(cls, group: int, rule: SimpleOptimizer[Any]) -> "GroupRule":
        """With the rule's own options."""
        return cls(group, rule, options_of(rule))

    def with_options(self, group: Mapping[str, Any]) -> "GroupRule":
        """This one with the options that one of torch's groups has; itself where they are the same.

        Raises:
            ConfigError: one is out of range, or the rule has none of that name.
        """
        rule = with_options(self.rule, {name: group[name] for name in OPTIONS if group.get(name) is not None})
        return self if rule is self.rule else GroupRule.of(self.group, rule)

    def following(self, group: Mapping[str, Any]) -> "GroupRule":
        """As `with_options`, at little cost where nothing has changed: it is asked in each step.

        Raises:
            ConfigError: one that the rule has is out of range.
        """
        same = all(group.get(name) == value for name, value in self.options.items())
        return self if same else self.with_options({name: group.get(name) for name in self.options})


def common_options(rules: RuleSet) -> Options:
    """The options that all rules have, with the values that the first one has."""
    first, *others = (options_of(rule) for rule in rules.rules)
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
    """The groups as `add_param_group` takes them.

    Args:
        params: None for all parameters of the module, by the groups of the config, the base first; a sequence of
            parameters, or of names with parameters, for some of them; of dicts for groups as torch has them.

    Raises:
        ArgumentError: there is no parameter.
        ConfigError: both the config and `params` have groups, or a parameter is not the module's.
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
    """The parameters of `module` that these tensors are, each once.

    Args:
        tensors: or pairs of a name and a tensor; or one tensor.

    Raises:
        ConfigError: one is not among them.
    """
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
    """The one group of the config that all these parameters are in, or BASE.

    Raises:
        ConfigError: they are in several, or in none where there is no base rule.
    """
    places = {last_match(rules.group_params, param) for param in members}
    if len(places) > 1:
        raise ConfigError(
            "TorchOptimizer: the parameters of one group are in several groups of the config; add one group for each"
        )
    place = places.pop() if places else BASE
    if place == BASE and rules.base is None:
        raise ConfigError("TorchOptimizer: the parameters of a group are in no group of the config, which has no base")
    return place


def refuse_sparse(grads: Sequence[tuple[Param, Tensor]]) -> None:
    """Refuse gradients that are not dense.

    Raises:
        ArgumentError: one is not.
    """
    for param, grad in grads:
        if grad.layout is not torch.strided:
            raise ArgumentError(
                f"TorchOptimizer: the gradient of '{param.path}' is sparse, and rules here take dense ones; make its"
                " layer with sparse=False. Nothing was changed"
            )
