"""States of torch's own optimizers as those of the rules here, and back: one table has the names of both."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...errors import RecordMismatchError
from ...module import ParamId
from ...module.tree.paths import listed
from ...record import Record
from ...record.state_dict.state_tree import decode_tree
from .matching import GROUPS, LAYOUTS, StateEntry, entries_of, tensors_of


@dataclass(frozen=True, slots=True)
class TorchRule:
    """One of torch's optimizers, or two with the same states, by the names of their configs here.

    Attributes:
        option: an option that only its groups have, among those that are known here.
        fields: torch's name -> the name here, of what its states may have.
        needed: those of torch's names that every state has.
    """

    classes: Mapping[str, Callable[..., torch.optim.Optimizer]]
    option: str
    fields: Mapping[str, str]
    needed: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return " or ".join(it.__name__ for it in self.classes.values())


RULES = (
    TorchRule(
        {"AdamConfig": torch.optim.Adam, "AdamWConfig": torch.optim.AdamW},
        "amsgrad",
        {
            "step": "momentum.time",
            "exp_avg": "momentum.moment_1",
            "exp_avg_sq": "momentum.moment_2",
            "max_exp_avg_sq": "momentum.max_moment_2",
        },
        frozenset({"step", "exp_avg", "exp_avg_sq"}),
    ),
    TorchRule({"SgdConfig": torch.optim.SGD}, "dampening", {"momentum_buffer": "momentum.velocity"}),
    TorchRule(
        {"RmsPropConfig": torch.optim.RMSprop},
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
        {"AdaGradConfig": torch.optim.Adagrad},
        "initial_accumulator_value",
        {"step": "lr_decay.time", "sum": "lr_decay.sum"},
        frozenset({"step", "sum"}),
    ),
)


def rule_in(state_dict: Mapping[str, Any]) -> TorchRule | None:
    """The rule whose state dict it is, by the options of its groups; None if it is of another optimizer."""
    groups = state_dict.get("param_groups") or [{}]
    return next((rule for rule in RULES if all(rule.option in group for group in groups)), None)


def expect_rule(state_dict: Mapping[str, Any], source: str, got: str, remedy: str) -> TorchRule:
    """The rule whose state dict it is; a RecordMismatchError if it is of an optimizer whose states no rule here has."""
    rule = rule_in(state_dict)
    if rule is None:
        known = listed([it.name for it in RULES])
        raise RecordMismatchError(f"{source}: expected one of torch's {known}, got {got}; {remedy}")
    return rule


def parts_of(state_dict: Any) -> tuple[Mapping[Any, Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The states and the groups of the state dict of an optimizer; a RecordMismatchError if it is none."""
    states = state_dict.get("state") if isinstance(state_dict, Mapping) else None
    groups = state_dict.get("param_groups") if isinstance(state_dict, Mapping) else None
    fits = isinstance(states, Mapping) and all(isinstance(it, Mapping) for it in states.values())
    if not fits or not isinstance(groups, list) or not all(map(is_group, groups)):
        whole = isinstance(state_dict, Mapping) and not {"state", "param_groups"} & state_dict.keys()
        got = f"a dict with {listed([str(key) for key in state_dict])}" if whole else f"{state_dict!r:.80}"
        raise RecordMismatchError(
            "expected the state dict of an optimizer, with a dict 'state' and a list 'param_groups' whose groups have"
            f" 'params', got {got}"
        )
    return states, groups  # pyright: ignore[reportReturnType]


def from_torch(
    rule: TorchRule, fields: Mapping[str, Any], shape: Sequence[int], path: str, source: str
) -> dict[str, Any]:
    """A state of torch's by the names that it has here.

    It is a RecordMismatchError if it is none of that optimizer, or of a parameter of another shape, but for that of its
    transpose: the layout is looked at later.
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
        elif not isinstance(value, Tensor) or [*value.shape] not in ([*shape], [*shape][::-1]):
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
    """A state by torch's names; see `from_torch`."""
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


def is_group(group: Any) -> bool:
    """Whether it is a group of parameters, of a state dict or a record."""
    return isinstance(group, Mapping) and isinstance(group.get("params"), list)


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
    """A function that reads a state from the record of an OptimizerAdaptor by torch's names of the fields."""
    source, got = f"{record.source} is that of an OptimizerAdaptor", type(optimizer).__name__
    rule = expect_rule(optimizer.state_dict(), source, got, "a TorchOptimizer takes it by its load_record")

    def state_of(entry: StateEntry, record: Record) -> dict[str, Any]:
        return to_torch(rule, {**tensors_of(entry, record), **entry.values}, str(entry), record.source)

    return state_of


def as_adaptors(record: Record) -> Record:
    """The record as an OptimizerAdaptor takes it, where it is that of one of torch's own optimizers."""
    groups, shapes = record.values.get(GROUPS), record.values.get("shapes")
    rule = rule_in(record.values) if isinstance(groups, list) and all(map(is_group, groups)) else None
    if rule is None or not isinstance(shapes, Mapping):
        return record
    states = []
    for entry in entries_of(record):
        shape = shapes.get(str(entry.id), ())
        fields = from_torch(rule, torchs_state(entry, record), shape, entry.path or str(entry.id), record.source)
        states.append((entry.id, entry.path, fields))
    layouts = {LAYOUTS: record.values[LAYOUTS]} if LAYOUTS in record.values else {}
    return state_record(states, record.source, **layouts)


def state_record(states: Iterable[tuple[ParamId, str | None, Mapping[str, Any]]], source: str, **values: Any) -> Record:
    """The record of an OptimizerAdaptor with these states: the id, the path and the fields of each."""
    tensors: dict[str, Tensor] = {}
    plain: dict[str, Any] = {}
    paths: dict[str, str] = {}
    for param_id, path, fields in states:
        for name, value in fields.items():
            (tensors if isinstance(value, Tensor) else plain)[f"{param_id}.{name}"] = value
        if fields and path is not None:
            paths[str(param_id)] = path
    return Record(tensors, {"states": plain, "paths": paths, **values}, source=source)
