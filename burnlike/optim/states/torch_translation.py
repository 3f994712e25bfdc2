"""Translates states between torch's own optimizers and an OptimizerAdaptor."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ...errors import RecordMismatchError
from ...module.identity.paths import listed
from ...record import Record
from ...record.derived.state_tree import decode_tree
from .matching import GROUPS, StateEntry, entries_of, tensors_of
from .torch_rules import RULES, from_torch, rule_in, to_torch


def is_of_adaptor(record: Record) -> bool:
    """Whether it is the record of an OptimizerAdaptor, and not of one of torch's optimizers."""
    return "optimizer" not in record.values and isinstance(record.values.get("states"), Mapping)


def is_group(saved: Any) -> bool:
    """Whether it may be a group of parameters."""
    return isinstance(saved, Mapping) and isinstance(saved.get("params", []), list)


def torchs_state(entry: StateEntry, record: Record) -> dict[str, Any]:
    """A state in the record of one of torch's optimizers."""
    tensors = tensors_of(entry, record)
    by_name = _Noted({entry.tensors[name]: tensor for name, tensor in tensors.items()})
    values = {name: decode_tree(value, by_name, record.source) for name, value in entry.values.items()}
    return {**{name: it for name, it in tensors.items() if entry.tensors[name] not in by_name.used}, **values}


class _Noted(dict[str, Tensor]):
    """Tensors by name, and the names of those that were asked for: the parts of a value."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__(tensors)
        self.used: set[str] = set()

    def __getitem__(self, name: str) -> Tensor:
        self.used.add(name)
        return super().__getitem__(name)


def adaptors_state(optimizer: torch.optim.Optimizer, record: Record) -> Callable[[StateEntry, Record], dict[str, Any]]:
    """A function that reads a state from the record of an OptimizerAdaptor by torch's names of the fields.

    Raises:
        RecordMismatchError: no OptimizerAdaptor has such states.
    """
    rule = rule_in(optimizer.state_dict())
    if rule is None:
        known = listed([it.name for it in RULES])
        raise RecordMismatchError(
            f"{record.source} is that of an OptimizerAdaptor: expected one of torch's {known}, got"
            f" {type(optimizer).__name__}; a TorchOptimizer takes it by its load_record"
        )

    def state_of(entry: StateEntry, record: Record) -> dict[str, Any]:
        fields = {**tensors_of(entry, record), **entry.values}
        return to_torch(rule, fields, str(entry), record.source)

    return state_of


def as_adaptors(record: Record) -> Record:
    """The record as an OptimizerAdaptor takes it, where it is that of one of torch's own optimizers.

    Raises:
        RecordMismatchError: it is of one whose states no rule here has.
    """
    groups, shapes = record.values.get(GROUPS), record.values.get("shapes")
    rule = rule_in(record.values) if isinstance(groups, list) and all(map(is_group, groups)) else None
    if rule is None or not isinstance(shapes, Mapping):
        return record
    tensors: dict[str, Tensor] = {}
    states: dict[str, Any] = {}
    for entry in entries_of(record):
        shape = shapes.get(str(entry.id), ())
        fields = from_torch(rule, torchs_state(entry, record), shape, entry.path or str(entry.id), record.source)
        for name, value in fields.items():
            (tensors if isinstance(value, Tensor) else states)[f"{entry.id}.{name}"] = value
    trained = {name.partition(".")[0] for name in (*tensors, *states)}
    paths = {text: path for text, path in record.values.get("paths", {}).items() if text in trained}
    return Record(tensors, {"states": states, "paths": paths}, source=record.source)
