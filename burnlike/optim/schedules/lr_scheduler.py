"""LrScheduler: a learning rate for each step, and a state that continues it bit for bit."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar

from ...errors import ArgumentError
from ...record.methods import RecordMethods
from .records import burn_0_21, burn_0_22, fitted

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

        Args:
            burn: whose form: 0.22 names every number and fits its burnpack files; 0.21 has bare numbers and fits its
                MessagePack, JSON and bincode files. `load_record` takes both.

        Raises:
            RecordError: Burn 0.21 has no such scheduler.
        """
        from ...record import Record

        values, layout = burn_0_22(self) if burn == "0.22" else burn_0_21(self)
        return Record(values=values, layout=layout, source=f"the record of {type(self).__name__}")

    def record_layout(self) -> Any:
        """The layout of the records of `into_record`, for files that carry no names."""
        return self.into_record().layout

    def load_record(self, record: "Record | Mapping[str, Any]") -> Self:
        """Continue from a saved state; returns the scheduler.

        Args:
            record: what `into_record` or `to_record` gave, or the record of a file of Burn 0.21 or 0.22.

        Raises:
            RecordMismatchError: it is the state of another scheduler; this one is as it was.
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
