"""torch's own optimizers: their records, and their states as those of the rules here, and back.

`torch_record` stores the states of one of torch's optimizers under torch's names, by ParamId and path. `RULES` has the
names of both sides: by it `from_torch` and `to_torch` translate single states, `as_adaptors` a whole record into one of
an OptimizerAdaptor, and `read_torch_record` one of an OptimizerAdaptor into torch's optimizer. State dicts are read in
`burnlike/interop/torch_states.py`, by the same functions.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import RecordError, RecordMismatchError
from ...module import Param, ParamId, params
from ...module.torch_objects.wrappers import is_distributed, part_of
from ...module.tree.paths import listed
from ...record import LoadReport, Mismatch, Record
from ...record.files.stored_tensors import shape_in
from ...record.state_dict.module_state import decode_tree, encode_tree, tensors_in
from .matching import (
    GROUPS,
    LAYOUTS,
    OptimizerLoadReport,
    StateEntry,
    StateOwner,
    entries_of,
    laid_out,
    match_entries,
    noted_layouts,
    options_of_groups,
    refuse_misfits,
    tensors_of,
)


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
            encoded = encode_tree(value, full, tensors)
            if encoded != {"$tensor": full}:
                states[full] = encoded
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
            "paths": {str(target.id): target.param.path for target in targets},
            GROUPS: groups,
            "shapes": {str(target.id): list(target.param.tensor.shape) for target in targets},
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
        """Load the state into the optimizer; of a sharded parameter, this process's part."""
        handles = [it for group in optimizer.param_groups for it in group["params"]]
        states = {
            index: {name: _divided_as(handles[index], field) for name, field in fields.items()}
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
        _checked_groups(optimizer, record)  # before `laid_out`, which takes the groups as they are
    if modules:
        record = laid_out(record, targets, modules, report, of_torch="optimizer" in record.values)
    if is_of_adaptor(record):
        entries, groups, state_of = entries_of(record), None, adaptors_state(optimizer, record)
        shapes = {str(it.id): list(shape_in(record.tensors, name)) for it in entries for name in it.tensors.values()}
    else:
        shapes, groups = _checked_groups(optimizer, record)
        entries, state_of = entries_of(record), torchs_state
    matches, outcome = match_entries(entries, targets, report)
    refuse_misfits(entries, outcome, targets, record.source, prune_orphans)
    states = {target.id: state_of(entry, record) for entry, target in matches if target}
    mismatched = [
        Mismatch(it.param.path, str(list(it.param.tensor.shape)), str(shapes[str(entry.id)]))
        for entry, it in matches
        if it and list(it.param.tensor.shape) != shapes.get(str(entry.id), list(it.param.tensor.shape))
    ]
    outcome = replace(outcome, mismatched=mismatched)
    refuse_misfits(entries, outcome, targets, record.source, True)
    index_of = {target.id: index for index, target in enumerate(targets)}
    origins = {index_of[target.id]: str(entry.id) for entry, target in matches if target}
    options = optimizer.state_dict()[GROUPS] if groups is None else _groups(optimizer, groups, origins, record)
    by_index = {index_of[param_id]: fields for param_id, fields in states.items() if fields}
    return LoadedTorchState(outcome, {"state": by_index, GROUPS: options})


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
    """The groups with the options of the one that their parameters (`origins` in the record) were in, or their own."""
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
    options = decode_tree(_options(group), record.tensors, record.source)
    if not isinstance(options, Mapping):
        raise RecordMismatchError(f"{record.source}: expected the options of a parameter group, got {options!r:.60}")
    return options


def trained_by(optimizer: torch.optim.Optimizer, modules: Sequence[nn.Module]) -> list[StateOwner]:
    """The parameters of `optimizer` in the order of its groups, named by `modules`, or by the optimizer, or by their
    places.

    It is a RecordError if there are modules, and none has one of them.
    """
    param_of = {id(param.tensor): param for module in modules for param in params(module, "weight")}
    owners = []
    for number, group in enumerate(optimizer.param_groups):
        names = group.get("param_names") or [f"{GROUPS}.{number}.{place}" for place in range(len(group["params"]))]
        for place, (name, tensor) in enumerate(zip(names, group["params"], strict=True)):
            param = param_of.get(id(tensor)) if modules else _named(name, tensor)
            if param is None:
                raise RecordError(
                    f"parameter {place} of group {number} of {type(optimizer).__name__} belongs to none of the modules"
                    " given; give the module that it trains"
                )
            owners.append(StateOwner(param, param.id))
    return owners


def _named(name: str, tensor: Tensor) -> Param:
    """A parameter that no module is known of, with an id that follows from its name."""
    # From the name, so that the next process, which has no ids of this one, finds the states again.
    param_id = ParamId(int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little"))
    # Of the values, not of the tensor itself, whose id in a module is another.
    param = Param.from_tensor(nn.Parameter(tensor.detach(), tensor.requires_grad), id=param_id)
    param.path = name
    return param


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
        return " or ".join(value.__name__ for value in self.classes.values())


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


CONVERTED = listed([it.name for it in RULES])
"""Names of torch's optimizers whose states are converted, for messages."""


def rule_in(state_dict: Mapping[str, Any]) -> TorchRule | None:
    """The rule whose state dict it is, by the options of its groups; None if it is of another optimizer."""
    groups = state_dict.get("param_groups") or [{}]
    return next((rule for rule in RULES if all(rule.option in group for group in groups)), None)


def expect_rule(state_dict: Mapping[str, Any], source: str, got: str, remedy: str) -> TorchRule:
    """The rule whose state dict it is; a RecordMismatchError if it is of an optimizer whose states no rule here has."""
    rule = rule_in(state_dict)
    if rule is None:
        raise RecordMismatchError(f"{source}: expected one of torch's {CONVERTED}, got {got}; {remedy}")
    return rule


def parts_of(state_dict: Any) -> tuple[Mapping[Any, Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The states and the groups of the state dict of an optimizer; a RecordMismatchError if it is none."""
    states = state_dict.get("state") if isinstance(state_dict, Mapping) else None
    groups = state_dict.get("param_groups") if isinstance(state_dict, Mapping) else None
    fits = isinstance(states, Mapping) and all(isinstance(state, Mapping) for state in states.values())
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
    translated: dict[str, Any] = {}
    for name, value in present.items():
        if name == "step":
            try:
                value = int(value)
            except (TypeError, ValueError, OverflowError, RuntimeError) as error:
                expected = f"expected a whole number, got {value!r:.40}"
                raise RecordMismatchError(f"{source}: step of '{path}': {expected}") from error
        elif not isinstance(value, Tensor) or [*value.shape] not in ([*shape], [*shape][::-1]):
            got = list(value.shape) if isinstance(value, Tensor) else repr(value)
            raise RecordMismatchError(f"{source}: {name} of '{path}': expected shape {list(shape)}, got {got}")
        if rule.fields[name]:
            translated[rule.fields[name]] = value
    if "square_avg.square_avg" in translated:
        # What the root is taken of is kept, too, as Burn keeps it.
        square, mean = translated["square_avg.square_avg"], translated.get("centered.grad_avg")
        translated["centered.avg"] = square.clone() if mean is None else square - mean.square()
    return translated


def to_torch(rule: TorchRule, fields: Mapping[str, Any], path: str, source: str) -> dict[str, Any]:
    """A state by torch's names; see `from_torch`."""
    ours = {name: theirs for theirs, name in rule.fields.items() if name}
    derived = ("centered.avg",)  # torch computes it anew
    foreign = [name for name in fields if name not in ours and name not in derived]
    if foreign:
        raise RecordMismatchError(f"{source}: '{foreign[0]}' of {path} is no field of {rule.name}'s states")
    translated = {ours[name]: value for name, value in fields.items() if name in ours}
    if "step" in rule.fields:
        # float32 on the CPU, as torch keeps it. RmsProp has no time here; torch's is not used in its formula.
        translated["step"] = torch.tensor(float(translated.get("step", 1)), dtype=torch.float32)
    return translated


def is_of_adaptor(record: Record) -> bool:
    """True for the record of an OptimizerAdaptor, not of one of torch's optimizers."""
    return "optimizer" not in record.values and isinstance(record.values.get("states"), Mapping)


def is_group(group: Any) -> bool:
    """True for a group of parameters, of a state dict or a record."""
    return isinstance(group, Mapping) and isinstance(group.get("params"), list)


def torchs_state(entry: StateEntry, record: Record) -> dict[str, Any]:
    """A state in the record of one of torch's optimizers."""
    tensors = tensors_of(entry, record)
    by_name = {entry.tensors[name]: tensor for name, tensor in tensors.items()}
    values = {name: decode_tree(value, by_name, record.source) for name, value in entry.values.items()}
    parts = {full for value in entry.values.values() for full in tensors_in(value, "")}  # of those values
    return {**{name: tensor for name, tensor in tensors.items() if entry.tensors[name] not in parts}, **values}


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
