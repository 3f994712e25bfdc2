"""torch's own optimizers: which a state dict is of, and their states by the names that they have here, and back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...errors import RecordMismatchError
from ...module.identity.paths import listed


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
    if not fits or not isinstance(groups, list) or not all(_is_group(it) for it in groups):
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
        rule: of the optimizer.
        fields: torch's name -> tensor or number.
        shape: of the parameter.
        path: of the parameter, for messages.
        source: where the state is, likewise.

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
