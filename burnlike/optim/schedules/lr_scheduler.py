"""LrScheduler: a learning rate for each step, and a state that continues it bit for bit.

Burn 0.22 names each number of a record, those of children below their index, and all below the index of the parameter
group, 0 where there is one scheduler for all. Burn 0.21 has a bare number, or `{"schedulers": [{"Linear": 3}, ...]}`.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NoReturn, Self, TypeVar

from ...errors import ArgumentError, RecordError, RecordMismatchError
from ...record.methods import RecordMethods

if TYPE_CHECKING:
    from ...record import Record


Rate = TypeVar("Rate")
Fitted = list[tuple["AnyLrScheduler[Any]", dict[str, int | float]]]
BEFORE_FIRST = 2**64 - 1
"""What Burn counts before the first step in unsigned counters that then begin at 0."""
_INTS = {"u64": (0, 2**64 - 1), "i64": (-(2**63), 2**63 - 1)}
_COMPOSABLE = [("Linear", "usize"), ("Cosine", "usize"), ("Exponential", "f64"), ("Noam", "usize")]
"""The children that Burn 0.21 knows, in the order that bincode numbers them by."""


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

    def __init__(self, **state: int | float) -> None:
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

        if burn == "0.21":
            values, layout = self._burn_0_21()
        else:
            values, layout = self._named()
            if not self.grouped:
                values, layout = ({"0": values}, {"0": layout}) if values else ({}, {})
        return Record(values=values, layout=layout, source=f"the record of {type(self).__name__}")

    def record_layout(self) -> Any:
        """The layout of the records of `into_record`, for files that carry no names."""
        return self.into_record().layout

    def burn_0_21_layout(self) -> Any:
        """The layout of its records in bincode of Burn up to 0.21; None if that has no place for them."""
        try:
            return self._burn_0_21()[1]
        except RecordError:
            return None

    def load_record(self, record: "Record | Mapping[str, Any]") -> Self:
        """Continue from the state of `into_record`, `to_record`, or a file of Burn 0.21 or 0.22; returns the scheduler.

        It is a RecordMismatchError if it is the state of another scheduler; this one is as it was.
        """
        from ...record import Record

        for scheduler, state in self._fitted(record if isinstance(record, Mapping) else Record.of(record).values):
            scheduler.state.update(state)
        return self

    def adjusted(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """The state as `fields` has it, from what `to_record` gave; for subclasses where these differ."""
        return state

    def _named(self) -> tuple[dict[str, Any], dict[str, Any]]:
        values, layout = dict(self.state), dict[str, Any](self.fields)
        for index, child in enumerate(self.children):
            below = child._named()
            if below[0]:
                values[str(index)], layout[str(index)] = below
        return values, layout

    def _burn_0_21(self) -> tuple[dict[str, Any], Any]:
        _, kind = self.burn_0_21 or self._unknown_to_0_21("")
        if kind == "unit":
            return {}, kind
        if kind != "schedulers":
            return {"": self._bare(kind)}, kind
        children, layouts = [], []
        for index, child in enumerate(self.children):
            name, below = child.burn_0_21 or (None, "")
            if name is None:
                child._unknown_to_0_21(f"schedulers.{index}: ")
            children.append({name: child._bare(below)})
            layouts.append({"$enum": _COMPOSABLE, "is": name})
        return {"schedulers": children}, {"schedulers": {"$vec": layouts}}

    def _bare(self, kind: str) -> int | float:
        (value,) = self.state.values()
        return float(value) if kind == "f64" else int(value)

    def _unknown_to_0_21(self, place: str) -> NoReturn:
        raise RecordError(
            f"{place}Burn 0.21 has no place for the state of {type(self).__name__}; use into_record('0.22')"
        )

    def _fitted(self, values: Mapping[str, Any]) -> Fitted:
        """The part of a record for this scheduler and those below it, checked; RecordMismatchError if there is none."""
        if not self.grouped and ("" in values or "schedulers" in values):
            return self._fitted_0_21(values)
        # The index of the group, or a scheduler with one child of that name: whichever fits.
        if not self.grouped and values.keys() == {"0"}:
            try:
                return self._fitted_0_22(values["0"], "0.")
            except RecordMismatchError:
                if not self.children:
                    raise
        return self._fitted_0_22(values, "")

    def _fitted_0_22(self, values: Any, path: str) -> Fitted:
        if not isinstance(values, Mapping):
            raise self._mismatch(path.rstrip("."), f"a map, got {values!r:.60}")
        values = self.adjusted(values)
        children = {str(index): child for index, child in enumerate(self.children)}
        if unexpected := sorted(values.keys() - self.fields.keys() - children.keys()):
            names = ", ".join((*self.fields, *children)) or "nothing"
            raise self._mismatch(path.rstrip("."), f"{names}, got also '{unexpected[0]}'")
        fields = self.fields.items()
        fitted: Fitted = [(self, {it: self._number(values.get(it), kind, f"{path}{it}") for it, kind in fields})]
        for name, child in children.items():
            fitted += child._fitted_0_22(values.get(name, {}), f"{path}{name}.")
        return fitted

    def _fitted_0_21(self, values: Mapping[str, Any], path: str = "") -> Fitted:
        _, kind = self.burn_0_21 or (None, "")
        if kind != "schedulers" or path:
            if isinstance(values.get(""), list):
                what = f"a number, as Burn writes it from 0.15 on, got {values['']!r:.60} of Burn 0.14"
                raise self._mismatch(path, f"{what}: call step() as often as that training did")
            if values.keys() != {""} or len(self.fields) != 1 or self.burn_0_21 is None:
                raise self._mismatch(path, f"its own state, got {dict(values)!r:.60}")
            ((name, kind),) = self.fields.items()
            return [(self, {name: self._number(values[""], kind, path)})]
        states = values.get("schedulers")
        if not isinstance(states, list) or len(states) != len(self.children):
            raise self._mismatch("schedulers", f"a list of {len(self.children)} states, got {states!r:.60}")
        fitted: Fitted = []
        for index, (child, state) in enumerate(zip(self.children, states, strict=True)):
            name, _ = child.burn_0_21 or (None, "")
            if not isinstance(state, Mapping) or state.keys() != {name}:
                raise child._mismatch(f"schedulers.{index}", f"the state of {name}, got {state!r:.60}")
            fitted += child._fitted_0_21({"": state[name]}, f"schedulers.{index}.{name}")
        return fitted

    def _number(self, value: Any, kind: str, path: str) -> int | float:
        if kind == "f64" and type(value) in (int, float) and abs(value) <= sys.float_info.max:
            return float(value)
        if kind in _INTS and type(value) is int and _INTS[kind][0] <= value <= _INTS[kind][1]:
            return value
        raise self._mismatch(path, f"a number ({kind}), got {value!r:.60}")

    def _mismatch(self, path: str, what: str) -> RecordMismatchError:
        place = f" at '{path}'" if path else ""
        return RecordMismatchError(
            f"{type(self).__name__}{place}: expected {what}; load the record of this kind of scheduler"
        )


def each_its_own(schedulers: "Sequence[LrScheduler]") -> "list[LrScheduler]":
    """A list of the schedulers; ArgumentError if one is in two places, where it would advance twice in each step."""
    for (before, first), (index, second) in combinations(enumerate(schedulers), 2):
        if first is second:
            raise ArgumentError(
                f"schedulers {before} and {index} are one {type(first).__name__} object, which would advance in both"
                " places: make one for each"
            )
    return list(schedulers)


class LrScheduler(AnyLrScheduler[float]):
    """Hands out a learning rate a step; the first is the initial rate.

    One of your own defines `step`, and keeps all that changes in `state`; see `AnyLrScheduler`.
    """
