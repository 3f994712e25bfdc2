"""LrScheduler: a learning rate for each step, and a state that continues it bit for bit.

Burn 0.22 names each number of a record, those of children below their index, and all below the index of the parameter
group, 0 where there is one scheduler for all. Burn 0.21 has a bare number, or `{"schedulers": [{"Linear": 3}, ...]}`.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar

from ...errors import ArgumentError, RecordError, RecordMismatchError
from ...record.methods import RecordMethods

if TYPE_CHECKING:
    from ...record import Record


Number = int | float
Rate = TypeVar("Rate")
BEFORE_FIRST = 2**64 - 1
"""What Burn counts before the first step in unsigned counters that then begin at 0."""


class AnyLrScheduler(RecordMethods, ABC, Generic[Rate]):
    """The base of LrScheduler and ModuleLrScheduler: a state, and records of it.

    A subclass keeps all that changes in `state` and says in `fields` what that is: records follow from it.

    Attributes:
        state: the numbers that `step` changes, by name.
        fields: name -> type in records, `u64`, `i64` or `f64`. Names and types are those of Burn 0.22.
        burn_0_21: name among the children of Burn 0.21's composed scheduler, None if it can be none, and the type of
            its state there; None for a scheduler that Burn 0.21 does not have.
        grouped: whether the children are the schedulers of groups of parameters.
    """

    grouped: ClassVar[bool] = False
    fields: ClassVar[Mapping[str, str]] = {}
    burn_0_21: ClassVar[tuple[str | None, str] | None] = None

    def __init__(self, **state: Number) -> None:
        self.state: dict[str, Any] = state

    @abstractmethod
    def step(self) -> Rate:
        """Advance by one optimizer step and return what it is to be taken with."""

    @property
    def children(self) -> "Sequence[LrScheduler]":
        """The schedulers that this one is made of."""
        return ()

    def to_record(self) -> dict[str, Any]:
        """The state as plain numbers by name, that of the children below `"0"`, ...; `into_record` gives a Record."""
        record = dict(self.state)
        for index, child in enumerate(self.children):
            if below := child.to_record():
                record[str(index)] = below
        return record

    def into_record(self, burn: Literal["0.21", "0.22"] = "0.22") -> "Record":
        """The state as a record of its own, for a file of any format.

        `burn` says whose form: 0.22 names every number and fits its burnpack files; 0.21 has bare numbers and fits its
        MessagePack, JSON and bincode files, and is a RecordError for a scheduler that it does not have. `load_record`
        takes both.
        """
        from ...record import Record

        values, layout = burn_0_22(self) if burn == "0.22" else burn_0_21(self)
        return Record(values=values, layout=layout, source=f"the record of {type(self).__name__}")

    def record_layout(self) -> Any:
        """The layout of the records of `into_record`, for files that carry no names."""
        return self.into_record().layout

    def load_record(self, record: "Record | Mapping[str, Any]") -> Self:
        """Continue from the state of `into_record`, `to_record`, or a file of Burn 0.21 or 0.22; returns the scheduler.

        It is a RecordMismatchError if it is the state of another scheduler; this one is as it was.
        """
        from ...record import Record

        for scheduler, state in fitted(self, record if isinstance(record, Mapping) else Record.of(record).values):
            scheduler.state.update(state)
        return self

    def adjusted(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """The state as `fields` has it, from what `to_record` gave; for subclasses where these differ."""
        return state


def each_its_own(schedulers: "Sequence[LrScheduler]") -> "list[LrScheduler]":
    """A list of the schedulers; ArgumentError if one is in two places, where it would advance twice in each step."""
    for index, scheduler in enumerate(schedulers):
        for before, other in enumerate(schedulers[:index]):
            if other is scheduler:
                raise ArgumentError(
                    f"schedulers {before} and {index} are one {type(scheduler).__name__} object, which would advance in"
                    " both places: make one for each"
                )
    return list(schedulers)


class LrScheduler(AnyLrScheduler[float]):
    """Hands out a learning rate a step; the first is the initial rate.

    One of your own defines `step`, and keeps all that changes in `state`; see `AnyLrScheduler`.
    """


State = dict[str, int | float]
_INTS = {"u64": (0, 2**64 - 1), "i64": (-(2**63), 2**63 - 1)}
_COMPOSABLE = [("Linear", "usize"), ("Cosine", "usize"), ("Exponential", "f64"), ("Noam", "usize")]
"""The children that Burn 0.21 knows, in the order that bincode numbers them by."""


def burn_0_22(scheduler: "AnyLrScheduler[Any]") -> tuple[dict[str, Any], Any]:
    values, layout = _named(scheduler)
    if scheduler.grouped:
        return values, layout
    return ({"0": values}, {"0": layout}) if values else ({}, {})


def _named(scheduler: "AnyLrScheduler[Any]") -> tuple[dict[str, Any], dict[str, Any]]:
    values, layout = dict(scheduler.state), dict[str, Any](scheduler.fields)
    for index, child in enumerate(scheduler.children):
        below = _named(child)
        if below[0]:
            values[str(index)], layout[str(index)] = below
    return values, layout


def burn_0_21(scheduler: "AnyLrScheduler[Any]") -> tuple[dict[str, Any], Any]:
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


def _bare(scheduler: "AnyLrScheduler[Any]", kind: str) -> int | float:
    (value,) = scheduler.state.values()
    return float(value) if kind == "f64" else int(value)


def _unknown(scheduler: "AnyLrScheduler[Any]", place: str) -> RecordError:
    return RecordError(
        f"{place}Burn 0.21 has no place for the state of {type(scheduler).__name__}; use into_record('0.22')"
    )


def fitted(scheduler: "AnyLrScheduler[Any]", values: Mapping[str, Any]) -> list[tuple["AnyLrScheduler[Any]", State]]:
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


def _fitted(scheduler: "AnyLrScheduler[Any]", values: Any, path: str) -> list[tuple["AnyLrScheduler[Any]", State]]:
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


def _fitted_0_21(
    scheduler: "AnyLrScheduler[Any]", values: Mapping[str, Any]
) -> list[tuple["AnyLrScheduler[Any]", State]]:
    _, kind = scheduler.burn_0_21 or (None, "")
    if kind != "schedulers":
        return _fitted_bare(scheduler, values, "")
    states = values.get("schedulers")
    if not isinstance(states, list) or len(states) != len(scheduler.children):
        raise _mismatch(scheduler, "schedulers", f"a list of {len(scheduler.children)} states, got {states!r:.60}")
    found: list[tuple[AnyLrScheduler[Any], State]] = []
    for index, (child, state) in enumerate(zip(scheduler.children, states, strict=True)):
        name, _ = child.burn_0_21 or (None, "")
        if not isinstance(state, Mapping) or state.keys() != {name}:
            raise _mismatch(child, f"schedulers.{index}", f"the state of {name}, got {state!r:.60}")
        found += _fitted_bare(child, {"": state[name]}, f"schedulers.{index}.{name}")
    return found


def _fitted_bare(
    scheduler: "AnyLrScheduler[Any]", values: Mapping[str, Any], path: str
) -> list[tuple["AnyLrScheduler[Any]", State]]:
    if values.keys() != {""} or len(scheduler.fields) != 1 or scheduler.burn_0_21 is None:
        raise _mismatch(scheduler, path, f"its own state, got {dict(values)!r:.60}")
    ((name, kind),) = scheduler.fields.items()
    return [(scheduler, {name: _number(scheduler, values[""], kind, path)})]


def _number(scheduler: "AnyLrScheduler[Any]", value: Any, kind: str, path: str) -> int | float:
    if kind == "f64" and type(value) in (int, float) and abs(value) <= sys.float_info.max:
        return float(value)
    if kind in _INTS and type(value) is int:
        low, high = _INTS[kind]
        if low <= value <= high:
            return value
    raise _mismatch(scheduler, path, f"a number ({kind}), got {value!r:.60}")


def _mismatch(scheduler: "AnyLrScheduler[Any]", path: str, what: str) -> RecordMismatchError:
    place = f" at '{path}'" if path else ""
    return RecordMismatchError(
        f"{type(scheduler).__name__}{place}: expected {what}; load the record of this kind of scheduler"
    )
