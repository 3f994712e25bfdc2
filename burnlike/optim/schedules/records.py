"""The states of schedulers in records: as Burn 0.22 and as Burn 0.21 arrange them, and back. Imports no torch.

Burn 0.22 names each number, those of children below their index, and all of it below the index of the parameter group,
which is 0 where there is one scheduler for all. Burn 0.21 has a bare number, or `{"schedulers": [{"Linear": 3}, ...]}`.
"""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...errors import RecordError, RecordMismatchError

if TYPE_CHECKING:
    from .lr_scheduler import AnyLrScheduler

    Scheduler = AnyLrScheduler[Any]

State = dict[str, int | float]
_INTS = {"u64": (0, 2**64 - 1), "i64": (-(2**63), 2**63 - 1)}
_COMPOSABLE = [("Linear", "usize"), ("Cosine", "usize"), ("Exponential", "f64"), ("Noam", "usize")]
"""The children that Burn 0.21 knows, in the order that bincode numbers them by."""


def burn_0_22(scheduler: "Scheduler") -> tuple[dict[str, Any], Any]:
    values, layout = _named(scheduler)
    if scheduler.grouped:
        return values, layout
    return ({"0": values}, {"0": layout}) if values else ({}, {})


def _named(scheduler: "Scheduler") -> tuple[dict[str, Any], dict[str, Any]]:
    values, layout = dict(scheduler.state), dict[str, Any](scheduler.fields)
    for index, child in enumerate(scheduler.children):
        below = _named(child)
        if below[0]:
            values[str(index)], layout[str(index)] = below
    return values, layout


def burn_0_21(scheduler: "Scheduler") -> tuple[dict[str, Any], Any]:
    if scheduler.burn_0_21 is None:
        raise _unknown(scheduler, "")
    _, kind = scheduler.burn_0_21
    if kind == "unit":
        return {}, kind
    if kind != "schedulers":
        return {"": _bare(scheduler, kind)}, kind
    children, layouts = [], []
    for index, child in enumerate(scheduler.children):
        name, below = child.burn_0_21 or (None, "")
        if name is None:
            raise _unknown(child, f"schedulers.{index}: ")
        children.append({name: _bare(child, below)})
        layouts.append({"$enum": _COMPOSABLE, "is": name})
    return {"schedulers": children}, {"schedulers": {"$vec": layouts}}


def _bare(scheduler: "Scheduler", kind: str) -> int | float:
    (value,) = scheduler.state.values()
    return float(value) if kind == "f64" else int(value)


def _unknown(scheduler: "Scheduler", place: str) -> RecordError:
    return RecordError(
        f"{place}Burn 0.21 has no place for the state of {type(scheduler).__name__}; use into_record('0.22')"
    )


def fitted(scheduler: "Scheduler", values: Mapping[str, Any]) -> "list[tuple[Scheduler, State]]":
    """The part of a record for the scheduler and those below it, checked; RecordMismatchError if there is none."""
    if scheduler.grouped:
        return _fitted(scheduler, values, "")
    if "" in values or "schedulers" in values:
        return _fitted_0_21(scheduler, values)
    if values.keys() == {"0"}:
        try:
            return _fitted(scheduler, values["0"], "0.")
        except RecordMismatchError:
            if not scheduler.children:
                raise
    return _fitted(scheduler, values, "")


def _fitted(scheduler: "Scheduler", values: Any, path: str) -> "list[tuple[Scheduler, State]]":
    if not isinstance(values, Mapping):
        raise _mismatch(scheduler, path.rstrip("."), f"a map, got {values!r:.60}")
    values = scheduler.adjusted(values)
    children = {str(index): child for index, child in enumerate(scheduler.children)}
    if unexpected := sorted(values.keys() - scheduler.fields.keys() - children.keys()):
        known = ", ".join((*scheduler.fields, *children)) or "nothing"
        raise _mismatch(scheduler, path.rstrip("."), f"{known}, got also '{unexpected[0]}'")
    state = {
        name: _number(scheduler, values.get(name), kind, f"{path}{name}") for name, kind in scheduler.fields.items()
    }
    found = [(scheduler, state)]
    for name, child in children.items():
        found += _fitted(child, values.get(name, {}), f"{path}{name}.")
    return found


def _fitted_0_21(scheduler: "Scheduler", values: Mapping[str, Any]) -> "list[tuple[Scheduler, State]]":
    _, kind = scheduler.burn_0_21 or (None, "")
    if kind != "schedulers":
        return _fitted_bare(scheduler, values, "")
    states = values.get("schedulers")
    if not isinstance(states, list) or len(states) != len(scheduler.children):
        raise _mismatch(scheduler, "schedulers", f"a list of {len(scheduler.children)} states, got {states!r:.60}")
    found: list[tuple[Scheduler, State]] = []
    for index, (child, state) in enumerate(zip(scheduler.children, states, strict=True)):
        name, _ = child.burn_0_21 or (None, "")
        if not isinstance(state, Mapping) or state.keys() != {name}:
            raise _mismatch(child, f"schedulers.{index}", f"the state of {name}, got {state!r:.60}")
        found += _fitted_bare(child, {"": state[name]}, f"schedulers.{index}.{name}")
    return found


def _fitted_bare(scheduler: "Scheduler", values: Mapping[str, Any], path: str) -> "list[tuple[Scheduler, State]]":
    if values.keys() != {""} or len(scheduler.fields) != 1 or scheduler.burn_0_21 is None:
        raise _mismatch(scheduler, path, f"its own state, got {dict(values)!r:.60}")
    ((name, kind),) = scheduler.fields.items()
    return [(scheduler, {name: _number(scheduler, values[""], kind, path)})]


def _number(scheduler: "Scheduler", value: Any, kind: str, path: str) -> int | float:
    if kind == "f64" and type(value) in (int, float) and abs(value) <= sys.float_info.max:
        return float(value)
    if kind in _INTS and type(value) is int:
        low, high = _INTS[kind]
        if low <= value <= high:
            return value
    raise _mismatch(scheduler, path, f"a number ({kind}), got {value!r:.60}")


def _mismatch(scheduler: "Scheduler", path: str, what: str) -> RecordMismatchError:
    place = f" at '{path}'" if path else ""
    return RecordMismatchError(
        f"{type(scheduler).__name__}{place}: expected {what}; load the record of this kind of scheduler"
    )
