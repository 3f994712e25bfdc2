"""GroupedOptimizer: torch's parameter groups over an OptimizerAdaptor."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor, nn

from .._torch_compat.fsdp import sharded_form
from ..errors import ConfigError
from ..module import Param, ParamGroup
from ..module.tree.walk import weights_and_tensors
from ..optim import ModuleLearningRate, OptimizerAdaptor
from ..optim.schedules.learning_rates import checked_rate
from ..record.methods import RecordMethods
from .torch_groups import (
    OPTIONS,
    GroupRule,
    common_options,
    group_in_config,
    groups_of,
    members_of,
    own_rule,
    refuse_unknown,
    rule_set,
)

# What torch's own optimizers say of how they compute; looked up by libraries, of no effect here.
_INERT = {"foreach": None, "fused": None, "capturable": False, "differentiable": False}


class GroupedOptimizer(RecordMethods, torch.optim.Optimizer):
    """The part of a TorchOptimizer that manages groups and their parameters."""

    def __init__(self, module: nn.Module, adaptor: OptimizerAdaptor[Any], lr: float, params: Any) -> None:
        checked_rate(lr)
        adaptor.check(module)
        self._module, self._adaptor = module, adaptor
        self._configured = adaptor.rules
        self._rules: list[GroupRule] = []
        self._members = Members()
        defaults = {"lr": lr, "maximize": adaptor.maximize, **_INERT, **common_options(adaptor.rules)}
        super().__init__(groups_of(adaptor.rules, module, lr, params), defaults)
        self._sync()

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
        refuse_unknown(rule.rule, param_group, self._adaptor.maximize)
        rule = rule.with_options(param_group)
        param_group.setdefault("lr", self.defaults["lr"] * self._configured.lr_factor(group))
        checked_rate(param_group["lr"])
        param_group["params"] = [(param.path, param.tensor) for param in members]
        param_group["param_names"] = []  # which torch replaces by the names of the parameters, if there are any
        super().add_param_group(param_group)
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
        found = self._members.by_tensor.get(id(tensor))
        # Where the module still has it, nothing is looked through: programs ask for one after the other.
        if found is None or not _has_still(found[1], tensor):
            self._sync()
            found = self._members.by_tensor.get(id(sharded_form(tensor)))
        return None if found is None else found[1]

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
        found, _ = weights_and_tensors(self._module)
        listed = list(map(id, chain.from_iterable(map(itemgetter("params"), self.param_groups))))
        renewed = self._members.found is not found or [*self._members.by_tensor] != listed
        if renewed:
            self._members = self._members.found_again(self.param_groups, found)
        has_news = renewed
        for rule, group in zip(self._rules, self.param_groups, strict=True):
            has_news = has_news or not rule.options.items() <= group.items()
        if has_news:
            rules = self._rules_for(self.param_groups)
            # betas that are a list are no news
            if renewed or any(new is not old for new, old in zip(rules, self._rules, strict=True)):
                self._take_rules(rules)

    def _rules_for(self, groups: Sequence[Mapping[str, Any]]) -> list[GroupRule]:
        return [
            rule.with_options({name: group.get(name) for name in rule.options})
            for rule, group in zip(self._rules, groups, strict=True)
        ]

    def _take_rules(self, rules: list[GroupRule]) -> None:
        self._rules = rules
        used = [it for it, group in zip(rules, self.param_groups, strict=True) if group["params"]]
        self._adaptor.rules = rule_set(self._configured, used, self._members.groups)


def _has_still(param: Param, tensor: Tensor) -> bool:
    try:
        return param.tensor is tensor
    except KeyError:  # the module has nothing of that name any more
        return False


@dataclass(frozen=True, slots=True)
class Members:
    """The parameters of the groups, as they were found in the module.

    Attributes:
        params: in the order of the groups.
        groups: the same by ids, for each of torch's groups that has any.
        by_tensor: `id()` of the tensor -> tensor and parameter. That the tensors are held keeps others from getting
            their addresses.
        found: all parameters of the module, the object that it gave.
    """

    params: Sequence[Param] = ()
    groups: tuple[ParamGroup, ...] = ()
    by_tensor: dict[int, tuple[Tensor, Param]] = field(default_factory=dict)
    found: Sequence[Param] | None = None

    def found_again(self, groups: Sequence[dict[str, Any]], found: Sequence[Param]) -> "Members":
        """Put the parameters that the module has now into the groups: by object, else by id, else by path.

        It changes `params`, `param_names` and `param_ids` of the groups. A parameter that the module no longer has is
        left out; a tensor that never was the module's is a ConfigError.
        """
        by_tensor = {id(param.tensor): param for param in found}
        by_id = {param.id: param for param in found}
        by_path = {param.path: param for param in found}
        params: list[Param] = []
        by_ids = []
        taken: set[int] = set()
        for group in groups:
            members = []
            for tensor in group["params"]:
                param = by_tensor.get(id(tensor))
                if param is None and self.found is not None:
                    if id(tensor) not in self.by_tensor:
                        raise ConfigError(
                            f"TorchOptimizer: a tensor of shape {list(tensor.shape)} was put into a group, and it is no"
                            " parameter of the module that the optimizer was made with"
                        )
                    before = self.by_tensor[id(tensor)][1]
                    param = by_id.get(before.id) or by_path.get(before.path)
                if param is not None and id(param) not in taken:
                    taken.add(id(param))
                    members.append(param)
            group["params"] = [param.tensor for param in members]
            group["param_names"] = [param.path for param in members]
            group["param_ids"] = [str(param.id) for param in members]
            params += members
            if members:
                by_ids.append(ParamGroup.from_ids(group["param_ids"]))
        known = {id(param.tensor): (param.tensor, param) for param in params}
        return Members(params, tuple(by_ids), known, found)
