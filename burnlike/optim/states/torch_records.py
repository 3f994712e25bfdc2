"""torch's own optimizers as records: their states by ParamId and path, as those of an OptimizerAdaptor."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import RecordError, RecordMismatchError
from ...module import Param, ParamId, params
from ...module.torch_objects.wrappers import is_distributed, part_of
from ...record import LoadReport, Mismatch, Record
from ...record.files.stored_tensors import shape_in
from ...record.state_dict.state_tree import decode_tree, encode_tree
from .matching import (
    GROUPS,
    LAYOUTS,
    OptimizerLoadReport,
    StateOwner,
    entries_of,
    laid_out,
    match_entries,
    noted_layouts,
    options_of_groups,
    refuse_misfits,
)
from .torch_rules import adaptors_state, is_group, is_of_adaptor, torchs_state


def torch_record(optimizer: torch.optim.Optimizer, *modules: nn.Module) -> Record:
    """The state of one of torch's optimizers, and the options of its groups; copies nothing.

    `modules` are what it trains: its parameters are named by them, so that states follow them. Without, names are those
    that the optimizer was given (`named_parameters()`), else the places in its groups, as in its `state_dict`.

    It is a RecordError if it trains a parameter that no module has, or its state holds what can't be stored without
    code.
    """
    targets = trained_by(optimizer, modules)
    state = optimizer.state_dict()
    tensors: dict[str, Tensor] = {}
    states: dict[str, Any] = {}
    for index, fields in state["state"].items():
        for name, value in fields.items():
            full = f"{targets[index].id}.{name}"
            found = encode_tree(value, full, tensors)
            if found != {"$tensor": full}:
                states[full] = found
    groups = [
        {
            **encode_tree(_options(group), f"{GROUPS}.{number}", tensors),
            "params": [str(targets[it].id) for it in group["params"]],
        }
        for number, group in enumerate(state[GROUPS])
    ]
    return Record(
        tensors=tensors,
        values={
            "states": states,
            "paths": {str(it.id): it.param.path for it in targets},
            GROUPS: groups,
            "shapes": {str(it.id): list(it.param.tensor.shape) for it in targets},
            "optimizer": type(optimizer).__name__,
            **({LAYOUTS: noted_layouts(modules)} if modules else {}),
        },
        source=f"the record of {type(optimizer).__name__}",
    )


_OF_PARAMS = ("params", "param_names", "param_ids", LAYOUTS)


def _options(group: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a group, without its parameters: an optimizer that loads them has its own, in its order."""
    return {name: value for name, value in group.items() if name not in _OF_PARAMS}


def load_torch_record(
    optimizer: torch.optim.Optimizer,
    record: Record,
    *modules: nn.Module,
    report: LoadReport | None = None,
    prune_orphans: bool = False,
) -> OptimizerLoadReport:
    """Put the states and options of `record` into one of torch's optimizers, each tensor in the dtype it was saved in.

    The groups must be as many as when it was saved. States and options follow the parameters, whatever the order of the
    groups and in them. The record of an OptimizerAdaptor with the same rule (Adam, AdamW, Sgd, RmsProp, AdaGrad) has no
    options: the optimizer keeps its own.

    Args:
        modules: what it trains; none where none was given to `torch_record`.
        report: that of the module's load, see `OptimizerAdaptor.load_record`.
        prune_orphans: drop states of parameters that it doesn't train.

    Raises:
        RecordMismatchError: it does not fit, or a group has parameters of groups whose options differed; the optimizer
            is as it was.
        RecordError: it trains a parameter that no module has.
    """
    targets = trained_by(optimizer, modules)
    loaded = read_torch_record(optimizer, Record.of(record), targets, modules, report, prune_orphans)
    loaded.apply(optimizer)
    return loaded.report


@dataclass(slots=True)
class LoadedTorchState:
    """A state that was read, as `state_dict()` gives it, and is to be put in place; and what became of each part."""

    report: OptimizerLoadReport
    state: dict[str, Any]

    def apply(self, optimizer: torch.optim.Optimizer) -> None:
        """Put it in place; of a sharded parameter, this process's part."""
        handles = [it for group in optimizer.param_groups for it in group["params"]]
        states = {
            index: {name: _divided_as(handles[index], it) for name, it in fields.items()}
            for index, fields in self.state["state"].items()
        }
        optimizer.load_state_dict({**self.state, "state": states})
        for index, fields in states.items():
            kept = optimizer.state.get(handles[index], {})  # a TorchLbfgs has its state elsewhere
            for name, value in fields.items():
                # torch gives states the dtype of their parameters, which loses bits.
                if isinstance(value, Tensor) and name in kept and kept[name].dtype != value.dtype:
                    kept[name] = value.to(kept[name].device)


def _divided_as(param: Any, value: Any) -> Any:
    """The state's tensor as a DTensor where it has a value for each of a sharded parameter."""
    if is_distributed(param) and isinstance(value, Tensor) and not is_distributed(value) and value.shape == param.shape:
        return part_of(value, param)
    return value


def read_torch_record(
    optimizer: torch.optim.Optimizer,
    record: Record,
    targets: Sequence[StateOwner],
    modules: Sequence[nn.Module],
    report: LoadReport | None = None,
    prune_orphans: bool = False,
) -> LoadedTorchState:
    """A state for `load_torch_record`, checked; nothing is changed yet.

    `targets`, parameters of `modules`, are in the order of its groups.
    """
    if not is_of_adaptor(record):
        _checked_groups(optimizer, record)
    if modules:
        record = laid_out(record, targets, modules, report, of_torch="optimizer" in record.values)
    if is_of_adaptor(record):
        entries, groups, state_of = entries_of(record), None, adaptors_state(optimizer, record)
        shapes = {str(it.id): list(shape_in(record.tensors, name)) for it in entries for name in it.tensors.values()}
    else:
        shapes, groups = _checked_groups(optimizer, record)
        entries, state_of = entries_of(record), torchs_state
    matches, found = match_entries(entries, targets, report)
    refuse_misfits(entries, found, targets, record.source, prune_orphans)
    states = {target.id: state_of(entry, record) for entry, target in matches if target}
    mismatched = [
        Mismatch(it.param.path, str(list(it.param.tensor.shape)), str(shapes[str(entry.id)]))
        for entry, it in matches
        if it and list(it.param.tensor.shape) != shapes.get(str(entry.id), list(it.param.tensor.shape))
    ]
    found = replace(found, mismatched=mismatched)
    refuse_misfits(entries, found, targets, record.source, True)
    index_of = {target.id: index for index, target in enumerate(targets)}
    origins = {index_of[target.id]: str(entry.id) for entry, target in matches if target}
    options = optimizer.state_dict()[GROUPS] if groups is None else _groups(optimizer, groups, origins, record)
    by_index = {index_of[param_id]: fields for param_id, fields in states.items() if fields}
    return LoadedTorchState(found, {"state": by_index, GROUPS: options})


def _checked_groups(optimizer: torch.optim.Optimizer, record: Record) -> tuple[Mapping[str, Any], list[Any]]:
    """Shape of each parameter, and the groups; RecordMismatchError if they are not those of such an optimizer."""
    groups, shapes = record.values.get(GROUPS), record.values.get("shapes")
    if (
        not (isinstance(shapes, Mapping) and isinstance(groups, list) and all(map(is_group, groups)))
        or record.values.get("optimizer") != type(optimizer).__name__
    ):
        raise RecordMismatchError(
            f"expected the record of a {type(optimizer).__name__} of torch, got {record.source} of"
            f" {record.values.get('optimizer', 'another kind')}"
        )
    if len(groups) != len(optimizer.param_groups):
        raise RecordMismatchError(
            f"{record.source}: expected {len(optimizer.param_groups)} parameter groups, got {len(groups)}"
        )
    return shapes, groups


def _groups(
    optimizer: torch.optim.Optimizer, saved: list[Any], origins: Mapping[int, str], record: Record
) -> list[dict[str, Any]]:
    """Each group with the options of the one that its parameters, `origins` in the record, were in, or its own."""
    groups = optimizer.state_dict()[GROUPS]
    number_of = {str(text): number for number, group in enumerate(saved) for text in group.get("params", ())}
    group_of = {place: number_of[text] for place, text in origins.items() if text in number_of}
    options = options_of_groups(
        [group["params"] for group in groups],
        group_of,
        [_decoded(group, record) for group in saved],
        record.source,
        "divide them into groups as they were",
    )
    return [{**group, **new} for group, new in zip(groups, options, strict=True)]


def _decoded(group: Mapping[str, Any], record: Record) -> Mapping[str, Any]:
    found = decode_tree(_options(group), record.tensors, record.source)
    if not isinstance(found, Mapping):
        raise RecordMismatchError(f"{record.source}: expected the options of a parameter group, got {found!r:.60}")
    return found


def trained_by(optimizer: torch.optim.Optimizer, modules: Sequence[nn.Module]) -> list[StateOwner]:
    """The parameters of `optimizer` in the order of its groups, named by `modules`, or by the optimizer, or by their
    places.

    It is a RecordError if there are modules, and none has one of them.
    """
    param_of = {id(param.tensor): param for module in modules for param in params(module, "weight")}
    found = []
    for number, group in enumerate(optimizer.param_groups):
        names = group.get("param_names") or [f"{GROUPS}.{number}.{place}" for place in range(len(group["params"]))]
        for place, (name, tensor) in enumerate(zip(names, group["params"], strict=True)):
            param = param_of.get(id(tensor)) if modules else _named(name, tensor)
            if param is None:
                raise RecordError(
                    f"parameter {place} of group {number} of {type(optimizer).__name__} belongs to none of the modules"
                    " given; give the module that it trains"
                )
            found.append(StateOwner(param, param.id))
    return found


def _named(name: str, tensor: Tensor) -> Param:
    """A parameter that no module is known of, with an id that follows from its name."""
    param_id = ParamId(int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little"))
    # Of the values, not of the tensor itself, whose id in a module is another.
    param = Param.from_tensor(nn.Parameter(tensor.detach(), tensor.requires_grad), id=param_id)
    param.path = name
    return param
