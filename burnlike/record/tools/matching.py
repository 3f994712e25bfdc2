"""Matches the tensors of two records: by name, and in records of optimizers by id, then by path."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..record import Record


@dataclass(frozen=True, slots=True)
class Names:
    """The names by which a record's parts are compared.

    Attributes:
        tensors: name -> where it is stored; tied tensors are under each of their names.
        stored_as: name -> the name of what is stored there.
        ids: name -> text of its id; what has none is left out.
        values: the plain values, named likewise.
    """

    tensors: dict[str, str]
    stored_as: dict[str, str]
    ids: dict[str, str]
    values: Any


def matched(one: Record, other: Record) -> tuple[Names, Names]:
    """The names of two records, so that what belongs together has the same."""
    paths = _paths(one), _paths(other)
    left = [{text: path for text, path in mine.items() if text not in theirs} for mine, theirs in (paths, paths[::-1])]
    common = set(left[0].values()) & set(left[1].values())
    # An id that is in both stays; a parameter that both have under other ids goes by its path.
    renamed = [{text: path for text, path in it.items() if path in common} for it in left]
    if any(len(set(it.values())) < len(it) for it in renamed):
        renamed = [{}, {}]
    return _names(one, renamed[0]), _names(other, renamed[1])


def _paths(record: Record) -> Mapping[str, str]:
    """Text of an id -> path, in a record of an optimizer; empty for others."""
    paths = record.values.get("paths") if "states" in record.values else None
    return paths if isinstance(paths, Mapping) else {}


def _names(record: Record, renamed: Mapping[str, str]) -> Names:
    stored = {**{name: name for name in record.tensors}, **record.aliases}
    ids = {name: str(record.ids[at]) for name, at in stored.items() if at in record.ids}
    if not renamed:
        return Names(stored, stored, ids, record.values)
    shown = {name: _shown(name, renamed) for name in stored}
    ids |= {shown[name]: name.partition(".")[0] for name in stored if shown[name] != name}
    values = dict(record.values)
    values["states"] = {_shown(name, renamed): value for name, value in record.values["states"].items()}
    values["paths"] = dict(_paths_by_path(record, renamed))
    tensors = {shown[name]: at for name, at in stored.items()}
    return Names(tensors, {name: shown[at] for name, at in tensors.items()}, ids, values)


def _paths_by_path(record: Record, renamed: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for text, path in _paths(record).items():
        yield renamed.get(text, text), path


def _shown(name: str, renamed: Mapping[str, str]) -> str:
    text, dot, field = name.partition(".")
    return f"{renamed[text]}{dot}{field}" if text in renamed else name
