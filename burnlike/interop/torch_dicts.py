"""State dicts of torch's own optimizers for a TorchOptimizer, and its state for torch's: matched by place alone."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ..errors import RecordMismatchError
from ..module import Param
from ..optim import OptimizerAdaptor
from ..optim.core.state import flatten
from ..optim.rules.config_base import MomentumConfig
from ..optim.states.torch_rules import from_torch, parts_of, rule_in, to_torch
from .group_options import options_of

_SOURCE = "the state dict"
_OF_CONFIG = ("amsgrad", "centered", "dampening", "lr_decay", "nesterov", "maximize", "decoupled_weight_decay")
"""Options of torch's groups that change a step and are of the whole config here."""
_CLASSES: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "AdaGradConfig": torch.optim.Adagrad,
    "AdamConfig": torch.optim.Adam,
    "AdamWConfig": torch.optim.AdamW,
    "RmsPropConfig": torch.optim.RMSprop,
    "SgdConfig": torch.optim.SGD,
}


def is_of_torch(state_dict: Any) -> bool:
    """Whether it is the state dict of one of torch's own optimizers."""
    _, groups = parts_of(state_dict)
    return rule_in(state_dict) is not None and not any("param_ids" in group for group in groups)


def from_torch_dict(
    state_dict: Mapping[str, Any], groups: Sequence[Mapping[str, Any]], params: Sequence[Param], rules: Sequence[Any],
    maximize: bool,
) -> dict[str, Any]:  # fmt: skip
    """The state dict of one of torch's optimizers in the form of a TorchOptimizer's.

    The groups have to have the same parameters, in the same order where the dict has no names of them.

    Args:
        groups: of the TorchOptimizer.
        params: of all groups.
        rules: of the groups.

    Raises:
        RecordMismatchError: it has other groups, other shapes, or options that this optimizer's config contradicts.
    """
    states, theirs = parts_of(state_dict)
    rule = rule_in(state_dict)
    assert rule is not None
    sizes, wanted = [len(group["params"]) for group in theirs], [len(group["params"]) for group in groups]
    if sizes != wanted:
        raise RecordMismatchError(
            f"{_SOURCE} of torch's {rule.name} has groups of {sizes} parameters, and this optimizer of {wanted}; make a"
            " record of it with interop.import_torch_optimizer(state_dict, module, order=...), which is told the order"
        )
    rest = [*params]
    found: dict[Any, Any] = {}
    made: list[dict[str, Any]] = []
    for own, group, own_rule in zip(groups, theirs, rules, strict=True):
        _check_options(group, own, own_rule, maximize, rule.name)
        members, rest = rest[: len(own["params"])], rest[len(own["params"]) :]
        if "param_names" in group:
            by_path = {path: param for param in members for path in (param.path, *param.aliases)}
            unknown = next((name for name in group["param_names"] if name not in by_path), None)
            if unknown is not None:
                raise RecordMismatchError(f"{_SOURCE} has a state of '{unknown}', which is in no such group here")
            members = [by_path[name] for name in group["param_names"]]
        for key, param in zip(group["params"], members, strict=True):
            if fields := from_torch(rule, states.get(key, {}), param.tensor.shape, param.path, _SOURCE):
                found[key] = fields
        options = {name: group[name] for name in own if name in group and name not in ("params", "param_names")}
        names = {"param_names": [it.path for it in members], "param_ids": [str(it.id) for it in members]}
        made.append({**options, **names, "params": group["params"]})
    return {"state": found, "param_groups": made}


def to_torch_dict(
    adaptor: OptimizerAdaptor[Any], groups: Sequence[Mapping[str, Any]], params: Sequence[Param], rules: Sequence[Any]
) -> dict[str, Any]:
    """The state as the optimizer of `torch.optim` with the same parameters in the same order loads it.

    Raises:
        RecordMismatchError: `torch.optim` has no such rule, or the rule an option that torch's lacks.
    """
    param_of = enumerate(params)
    states: dict[int, Any] = {}
    made: list[dict[str, Any]] = []
    for group, rule in zip(groups, rules, strict=True):
        theirs = _group_of(rule, float(group["lr"]), adaptor.maximize)
        kind = rule_in({"param_groups": [theirs]})
        assert kind is not None
        numbers = []
        for _ in group["params"]:
            number, param = next(param_of)
            numbers.append(number)
            if (state := adaptor.state_of(param)) is not None:
                tensors, values = flatten(state)
                states[number] = to_torch(kind, {**tensors, **values}, param.path, "the optimizer")
        made.append({**theirs, "params": numbers})
    return {"state": states, "param_groups": made}


def _group_of(rule: Any, lr: float, maximize: bool) -> dict[str, Any]:
    """The options of a group of torch's optimizer, those that only torch has with its defaults."""
    config = getattr(rule, "config", None)
    make = _CLASSES.get(type(config).__name__)
    if make is None or getattr(config, "cautious_weight_decay", False):
        what = f"the {type(rule).__name__}" if make is None else "cautious_weight_decay"
        raise RecordMismatchError(f"form='torch': torch.optim has no counterpart of {what}; leave out form")
    ours = {name: value for name in _OF_CONFIG if (value := _option(config, name, maximize)) is not None}
    ours.pop("decoupled_weight_decay", None)
    if not options_of(rule).get("momentum"):
        ours = {name: it for name, it in ours.items() if name not in ("dampening", "nesterov")}
    (group,) = make([torch.nn.Parameter(torch.empty(()))], lr=lr, **options_of(rule), **ours).param_groups
    return {name: value for name, value in group.items() if name != "params"}


def _check_options(theirs: Mapping[str, Any], own: Mapping[str, Any], rule: Any, maximize: bool, name: str) -> None:
    """Refuse what torch's group says otherwise than this optimizer's config."""
    config = getattr(rule, "config", None)
    if type(config).__name__ not in _CLASSES:
        raise RecordMismatchError(f"{_SOURCE} is of torch's {name}, and this optimizer's rule is {type(rule).__name__}")
    pairs = [(name, theirs[name], _option(config, name, maximize)) for name in _OF_CONFIG if name in theirs]
    if theirs.get("momentum") and "momentum" not in own:
        pairs.append(("momentum", theirs["momentum"], None))
    elif not theirs.get("momentum"):
        pairs = [it for it in pairs if it[0] not in ("dampening", "nesterov")]
    for name, value, here in pairs:
        if (value or 0) != (here or 0):
            raise RecordMismatchError(
                f"{_SOURCE} is of an optimizer with {name}={value!r}, and the config of this one has {here!r}; make it"
                " with the same. The optimizer is as it was"
            )


def _option(config: Any, name: str, maximize: bool) -> Any:
    if name == "maximize":
        return maximize
    if name == "decoupled_weight_decay":
        return type(config).__name__ == "AdamWConfig"
    momentum = getattr(config, "momentum", None)
    if name in ("dampening", "nesterov"):
        return getattr(momentum, name, None) if isinstance(momentum, MomentumConfig) else None
    return getattr(config, name, None)
