"""Turns states of torch's own optimizers into records, and records into such states."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .._torch_compat.fsdp import sharded_forms
from .._torch_compat.modules import WRAPPED
from ..errors import RecordMismatchError
from ..module import Param, params
from ..module.tree.paths import listed
from ..optim.states.torch_records import read_torch_record, trained_by
from ..optim.states.torch_rules import RULES, from_torch, parts_of, rule_in
from ..record import Record
from ..record.torch_files.content import read_content

Order = torch.optim.Optimizer | Iterable[Tensor] | Iterable[str]
_SOURCE = "the state dict"
_STRIPPED = [f"{name}." for name in WRAPPED]


def import_torch_optimizer(
    state_dict: Mapping[str, Any] | str | os.PathLike[str], module: nn.Module, *, order: Order | None = None
) -> Record:
    """The state of a torch.optim Adam, AdamW, SGD, RMSprop or Adagrad as a record for `OptimizerAdaptor.load_record`.

    With equal settings the next step is torch's. The settings themselves (rates, betas, epsilon) are not taken over.

    Args:
        state_dict: what its `state_dict()` gave, or a file that `torch.save` made of that; no code in it is run.
        module: the module that it trained: its parameters get the states.
        order: which parameters the numbers of the state dict mean, where it has no names (`param_names`): the
            parameters, or their paths, in the order that the optimizer was given them (`module.parameters()`), or an
            optimizer with the same groups.

    Returns:
        A record whose tensors are those of the state dict, each of the dtype that it has there.

    Raises:
        RecordMismatchError: it is of another optimizer, does not say which parameter a state is of, or does not fit.
        RecordIOError: the file can't be read.
        RecordFormatError: it is none of `torch.save`, is damaged, or has objects that only code could make.

    Example:
        >>> from burnlike.optim import AdamWConfig
        >>> layer = nn.Linear(2, 1)
        >>> theirs = torch.optim.AdamW(layer.named_parameters())
        >>> record = import_torch_optimizer(theirs.state_dict(), layer)
        >>> ours = AdamWConfig(epsilon=1e-8, weight_decay=1e-2).init().load_record(record, layer)
    """
    found = state_dict if isinstance(state_dict, Mapping) else _loaded(state_dict)
    states, groups = parts_of(found)
    rule = rule_in(found)
    if rule is None:
        raise RecordMismatchError(
            f"{_SOURCE}: expected one of torch's {listed([it.name for it in RULES])}, got"
            f" {_described(groups)}; other optimizers have states that none here has"
        )
    tensors: dict[str, Tensor] = {}
    values: dict[str, Any] = {}
    paths: dict[str, str] = {}
    targets = _targets(groups, module, order)
    unknown = [key for key in states if key not in targets]
    if unknown:
        raise RecordMismatchError(f"{_SOURCE} has a state of {unknown[0]!r}, which is in none of its parameter groups")
    for key, param in targets.items():
        fields = from_torch(rule, states.get(key, {}), param.tensor.shape, param.path, _SOURCE)
        if fields:
            paths[str(param.id)] = param.path
        for name, value in fields.items():
            (tensors if isinstance(value, Tensor) else values)[f"{param.id}.{name}"] = value
    return Record(
        tensors=tensors, values={"states": values, "paths": paths}, source=f"{_SOURCE} of torch's {rule.name}"
    )


def export_torch_optimizer(record: Record, optimizer: torch.optim.Optimizer, *modules: nn.Module) -> dict[str, Any]:
    """The states of a record as a state dict that torch's own `optimizer` can load.

    Args:
        record: what an OptimizerAdaptor's `into_record` gave, with states of Adam, AdamW, Sgd, RmsProp or AdaGrad.
        optimizer: the torch.optim Adam, AdamW, SGD, RMSprop or Adagrad that is to go on; it is not changed. Torch's
            `load_state_dict` then casts floating-point states to the dtype of their parameters.
        modules: what it trains.

    Returns:
        As its `state_dict()`: the options of its groups as they are, and for each parameter that has a state in the
        record that state.

    Raises:
        RecordMismatchError: the record is of another optimizer, or has states of parameters that it doesn't train.
        RecordError: it trains a parameter that no module has.
    """
    found = optimizer.state_dict()
    rule = rule_in(found)
    if rule is None:
        known = listed([it.name for it in RULES])
        raise RecordMismatchError(f"expected one of torch's {known}, got {type(optimizer).__name__}")
    loaded = read_torch_record(optimizer, record, trained_by(optimizer, modules))
    return {"state": loaded.state["state"], "param_groups": found["param_groups"]}


def _loaded(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    found = read_content(path)
    if not isinstance(found, Mapping):
        raise RecordMismatchError(
            f"{os.fspath(path)}: expected the state dict of an optimizer, got a {type(found).__name__}"
        )
    return found


def _described(groups: Sequence[Mapping[str, Any]]) -> str:
    return f"one with the options {listed(sorted(map(str, groups[0])))}" if groups else "one without groups"


def _targets(groups: Sequence[Mapping[str, Any]], module: nn.Module, order: Order | None) -> dict[Any, Param]:
    """The parameter of each key of the states."""
    keys = [key for group in groups for key in group["params"]]
    if order is None:
        # Where states are keyed by names, as torch.distributed.checkpoint makes them, the keys tell it.
        named = all(isinstance(key, str) for key in keys)
        names = keys if named else [name for group in groups for name in group.get("param_names", ())]
        if len(names) != len(keys):
            raise RecordMismatchError(
                f"{_SOURCE} has no names of parameters (param_names), and its numbers alone don't say which layer is"
                " meant; pass order=module.parameters() if its optimizer was made with that, or the parameters in the"
                " order that it got them"
            )
        by_path = _by_path(module)
        found = [_param_at(module, by_path, name) for name in names]
    else:
        found = _ordered(module, order)
        if len(found) != len(keys):
            raise RecordMismatchError(f"{_SOURCE} has {len(keys)} parameters, and order has {len(found)}")
    if len({param.id for param in found}) < len(found):
        raise RecordMismatchError(f"{_SOURCE}: a parameter is meant twice in order or param_names")
    return dict(zip(keys, found, strict=True))


def _ordered(module: nn.Module, order: Order) -> list[Param]:
    if isinstance(order, torch.optim.Optimizer):
        return [target.param for target in trained_by(order, [module])]
    known, forms = {id(param.tensor): param for param in params(module, "weight")}, sharded_forms()
    by_path = _by_path(module)
    found = []
    for place, item in enumerate(order):
        param = _param_at(module, by_path, item) if isinstance(item, str) else known.get(id(forms.get(id(item), item)))
        if param is None:
            raise RecordMismatchError(f"order[{place}] is no parameter of the {type(module).__name__}")
        found.append(param)
    return found


def _by_path(module: nn.Module) -> dict[str, Param]:
    return {path: param for param in params(module, "weight") for path in (param.path, *param.aliases)}


def _param_at(module: nn.Module, by_path: Mapping[str, Param], name: str) -> Param:
    path = name
    for prefix in _STRIPPED:
        path = path if path in by_path else path.replace(prefix, "")
    if path not in by_path:
        raise RecordMismatchError(
            f"{_SOURCE} has a state of '{name}', and {type(module).__name__} has no such parameter; it has"
            f" {listed(list(by_path))}"
        )
    return by_path[path]
