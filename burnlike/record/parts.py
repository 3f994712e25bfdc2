"""Attribute access to the content of a record, as `record.layers[0].weight`."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

from ..errors import RecordPathError, nearest
from .derived.entries import decoded, entries_of
from .values import IDS

if TYPE_CHECKING:
    from .record import Record


_OF_RECORDS = ("tensors", "values", "ids", "aliases", "states", "source", "layout", "metadata", "into")


class RecordPart:
    """The content below a path of a record: attributes and items are parts, tensors and plain values.

    `part.name`, `part["name"]` and, for what is numbered, `part[0]` lead one step down; iterating gives the names.
    Whatever takes a record takes a part of one, and it has what records have (`part.tensors`), where no part of that
    name is there.
    """

    __slots__ = ("_path", "_record")

    def __init__(self, record: "Record", path: str) -> None:
        self._record = record
        self._path = path

    def into_record(self) -> "Record":
        """The part as a record of its own, whose names begin here."""
        from .nesting import part_of

        return part_of(self._record, self._path)

    def load_into(self, target: Any, **options: Any) -> Any:
        """Put the part into a module or whatever else it is a record of; see `Record.load_into`."""
        return self.into_record().load_into(target, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return step(self._record, self._path, name)
        except RecordPathError:
            if name in _OF_RECORDS:  # where the record has nothing of that name
                return getattr(self.into_record(), name)
            raise

    def __getitem__(self, name: str | int) -> Any:
        return step(self._record, self._path, name)

    def __iter__(self) -> Iterator[str]:
        return iter(names_below(self._record, self._path))

    def __len__(self) -> int:
        return len(names_below(self._record, self._path))

    def __dir__(self) -> list[str]:
        return names_below(self._record, self._path)

    def __repr__(self) -> str:
        return f"RecordPart '{self._path}' of {self._record.source}: {', '.join(self)}"


def step(record: "Record", path: str, name: str | int) -> Any:
    """The tensor, plain value or part called `name` below `path`.

    Raises:
        RecordPathError: there is none.
    """
    below = f"{path}.{name}" if path else str(name)
    tensor_name = record.aliases.get(below, below)
    if tensor_name in record.tensors:
        return record.tensors[tensor_name]
    entries = dict(entries_of(record.values))
    if below in entries:
        return decoded(entries[below], below, record)
    found, value = value_at(record.values, below)
    if found and not isinstance(value, Mapping | list | tuple):
        return value
    if found or any(map(str.startswith, chain(record.tensors, record.aliases, entries), repeat(f"{below}."))):
        return RecordPart(record, below)
    known = names_below(record, path)
    where = f"'{path}' of {record.source}" if path else record.source
    raise RecordPathError(f"{where} has no '{name}', it has {', '.join(known[:8])}{nearest(str(name), known)}")


def names_below(record: "Record", path: str) -> list[str]:
    """The names one step below `path`, in the record's order."""
    prefix = f"{path}." if path else ""
    entries = dict(entries_of(record.values))
    names = [name for name in (*record.tensors, *record.aliases, *entries) if name.startswith(prefix)]
    found, value = value_at(record.values, path)
    numbered = isinstance(value, Sequence) and not isinstance(value, str)
    keys = map(str, range(len(value)) if numbered else value if isinstance(value, Mapping) else ()) if found else ()
    keys = [key for key in keys if key != IDS and f"{prefix}{key}" not in entries]
    return list(dict.fromkeys((*(name[len(prefix) :].partition(".")[0] for name in names), *keys)))


def value_at(values: Any, path: str) -> tuple[bool, Any]:
    """Whether there is a plain value at `path`, and which."""
    for name in path.split(".") if path else ():
        try:
            values = values[int(name)] if isinstance(values, list | tuple) else values[name]
        except (KeyError, IndexError, ValueError, TypeError):
            return False, None
    return True, values
