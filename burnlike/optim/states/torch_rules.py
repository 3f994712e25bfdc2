"""States of torch's own optimizers: which rule they are of, by the names that they have here, and back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...errors import RecordMismatchError
from ...module.tree.paths import listed
from ...record import Record
from ...record.state_dict.state_tree import decode_tree
from .matching import GROUPS, StateEntry, entries_of, tensors_of


@dataclass(frozen=True, slots=True)
class TorchRule:
    """One of torch's optimizers.

    Attributes:
        name: what it is called.
        option: an option that only its groups have, among those that are known here.
        fields: torch's name -> the name here, of what its states may have.
        needed: those of torch's names that every state has.
    """

    name: str
    option: str
    fields: Mapping[str, str]
    needed: frozenset[str]


RULES = (
    TorchRule(
        "Adam or AdamW",
        "amsgrad",
        {
            "step": "momentum.time",
            "exp_avg": "momentum.moment_1",
            "exp_avg_sq": "momentum.moment_2",
            "max_exp_avg_sq": "momentum.max_moment_2",
        },
        frozenset({"step", "exp_avg", "exp_avg_sq"}),
    ),
    TorchRule("SGD", "dampening", {"momentum_buffer": "momentum.velocity"}, frozenset()),
    TorchRule(
        "RMSprop",
        "centered",
        {
            "step": "",
            "square_avg": "square_avg.square_avg",
            "grad_avg": "centered.grad_avg",
            "momentum_buffer": "momentum.buf",
        },
        frozenset({"square_avg"}),
    ),
    TorchRule(
        "Adagrad",
        "initial_accumulator_value",
        {"step": "lr_decay.time", "sum": "lr_decay.sum"},
        frozenset({"step", "sum"}),
    ),
)


def rule_in(state_dict: Mapping[str, Any]) -> TorchRule | None:
    """The rule of torch whose state dict it is, told by the options of its groups; None if it is of another."""
    groups = state_dict.get("param_groups") or [{}]
    return next((rule for rule in RULES if all(rule.option in group for group in groups)), None)


def parts_of(state_dict: Any) -> tuple[Mapping[Any, Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The states and the groups of the state dict of an optimizer.

    Raises:
        RecordMismatchError: it is none.
    """
    states = state_dict.get("state") if isinstance(state_dict, Mapping) else None
    groups = state_dict.get("param_groups") if isinstance(state_dict, Mapping) else None
    fits = isinstance(states, Mapping) and all(isinstance(it, Mapping) for it in states.values())
    if not fits or not isinstance(groups, list) or not all(map(_is_group, groups)):
        whole = isinstance(state_dict, Mapping) and not {"state", "param_groups"} & state_dict.keys()
        got = f"a dict with {listed([str(key) for key in state_dict])}" if whole else f"{state_dict!r:.80}"
        raise RecordMismatchError(
            "expected the state dict of an optimizer, with a dict 'state' and a list 'param_groups' whose groups have"
            f" 'params', got {got}"
        )
    return states, groups  # pyright: ignore[reportReturnType]


def _is_group(group: Any) -> bool:
    return isinstance(group, Mapping) and isinstance(group.get("params"), list)


def from_torch(
    rule: TorchRule, fields: Mapping[str, Any], shape: Sequence[int], path: str, source: str
) -> dict[str, Any]:
    """A state of torch's by the names that it has here.

    Args:
        fields: torch's name -> tensor or number.

    Raises:
        RecordMismatchError: it is none of that optimizer, or of a parameter of another shape.
    """
    present = {name: value for name, value in fields.items() if value is not None}
    foreign = [name for name in present if name not in rule.fields]
    missing = sorted(rule.needed - present.keys()) if present else []
    if foreign or missing:
        wrong = f"has '{foreign[0]}'" if foreign else f"lacks '{missing[0]}'"
        raise RecordMismatchError(f"{source}: the state of '{path}' {wrong}; it is none of torch's {rule.name}")
    found: dict[str, Any] = {}
    for name, value in present.items():
        if name == "step":
            value = _steps(value, path, source)
        elif not isinstance(value, Tensor) or value.shape != torch.Size(shape):
            got = list(value.shape) if isinstance(value, Tensor) else repr(value)
            raise RecordMismatchError(f"{source}: {name} of '{path}': expected shape {list(shape)}, got {got}")
        if rule.fields[name]:
            found[rule.fields[name]] = value
    if "square_avg.square_avg" in found:
        # What the root is taken of is kept, too, as Burn keeps it.
        square, mean = found["square_avg.square_avg"], found.get("centered.grad_avg")
        found["centered.avg"] = square.clone() if mean is None else square - mean.square()
    return found


def to_torch(rule: TorchRule, fields: Mapping[str, Any], path: str, source: str) -> dict[str, Any]:
    """A state by torch's names; see `from_torch`.

    Raises:
        RecordMismatchError: it has a field that torch's states don't have.
    """
    ours = {name: theirs for theirs, name in rule.fields.items() if name}
    derived = ("centered.avg",)  # torch computes it anew
    foreign = [name for name in fields if name not in ours and name not in derived]
    if foreign:
        raise RecordMismatchError(f"{source}: '{foreign[0]}' of {path} is no field of {rule.name}'s states")
    found = {ours[name]: value for name, value in fields.items() if name in ours}
    if "step" in rule.fields:
        # float32 on the CPU, as torch keeps it. RmsProp has no time here; torch's is not used in its formula.
        found["step"] = torch.tensor(float(found.get("step", 1)), dtype=torch.float32)
    return found


def _steps(value: Any, path: str, source: str) -> int:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise RecordMismatchError(f"{source}: step of '{path}': expected a whole number, got {value!r:.40}") from error


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
