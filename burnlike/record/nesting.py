"""The parts of records: attribute access to them, as `record.layers[0].weight`, and records made of records.

Nothing is read or copied.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..errors import RecordPathError, nearest
from ..module import ParamId
from .files.stored_tensors import LazyTensors, merged, renamed_tensors
from .layout import BurnVersion, LayoutOf, join, known_layout, tag_of
from .metadata import ENTRY, IDS, ids_of_clones
from .state_dict.module_state import decoded, entries_of, renamed_versions, versions_together

if TYPE_CHECKING:
    from .record import Record

_OF_RECORDS = ("tensors", "values", "ids", "aliases", "states", "source", "layout", "metadata", "into")


class RecordPart:
    """The content below a path of a record: attributes and items (`part[0]`) are parts, tensors and plain values.

    Iterating gives the names. Whatever takes a record takes a part of one, and it has what records have
    (`part.tensors`), where no part of that name is there.
    """

    __slots__ = ("_path", "_record")

    def __init__(self, record: "Record", path: str) -> None:
        self._record = record
        self._path = path

    def into_record(self) -> "Record":
        """The part as a record of its own, whose names begin here."""
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
        return iter(self.__dir__())

    def __len__(self) -> int:
        return len(self.__dir__())

    def __dir__(self) -> list[str]:
        return names_below(self._record, self._path)

    def __repr__(self) -> str:
        return f"RecordPart '{self._path}' of {self._record.source}: {', '.join(self)}"


def step(record: "Record", path: str, name: str | int) -> Any:
    """The tensor, plain value or part called `name` below `path`."""
    below = join(path, name)
    tensor_name = record.aliases.get(below, below)
    if tensor_name in record.tensors:
        return record.tensors[tensor_name]
    entries = dict(entries_of(record.values))
    if below in entries:
        return decoded(entries[below], below, record)
    is_there, value = value_at(record.values, below)
    if is_there and not isinstance(value, Mapping | list | tuple):
        return value
    if is_there or any(map(str.startswith, chain(record.tensors, record.aliases, entries), repeat(f"{below}."))):
        return RecordPart(record, below)
    names = names_below(record, path)
    where = f"'{path}' of {record.source}" if path else record.source
    raise RecordPathError(f"{where} has no '{name}', it has {', '.join(names[:8])}{nearest(str(name), names)}")


def names_below(record: "Record", path: str) -> list[str]:
    """The names one step below `path`, in the record's order."""
    prefix = f"{path}." if path else ""
    entries = dict(entries_of(record.values))
    names = [name for name in (*record.tensors, *record.aliases, *entries) if name.startswith(prefix)]
    is_there, value = value_at(record.values, path)
    numbered = isinstance(value, Sequence) and not isinstance(value, str)
    keys = map(str, range(len(value)) if numbered else value if isinstance(value, Mapping) else ()) if is_there else ()
    keys = [key for key in keys if key != IDS and f"{prefix}{key}" not in entries]
    return list(dict.fromkeys((*(name[len(prefix) :].partition(".")[0] for name in names), *keys)))


def value_at(values: Any, path: str) -> tuple[bool, Any]:
    """True and the plain value at `path`, if there is one."""
    for name in path.split(".") if path else ():
        try:
            values = values[int(name)] if isinstance(values, list | tuple) else values[name]
        except (KeyError, IndexError, ValueError, TypeError):
            return False, None
    return True, values


def nested(parts: Mapping[str, "Record"], around: "Record") -> "Record":
    """One record of several: `parts` by their paths, and `around`, whose values include those of the parts."""
    whole = {"": around, **parts}
    filled = {path: record.tensors for path, record in parts.items() if record.tensors}
    renamed = [renamed_tensors(value, {name: join(path, name) for name in value}) for path, value in filled.items()]
    lazy = [it for it in renamed if isinstance(it, LazyTensors)]
    tensors: Mapping[str, Tensor]
    if lazy and len(lazy) == len(renamed) and not around.tensors:
        tensors = merged(lazy)
    else:
        tensors = {name: it[name] for it in (around.tensors, *renamed) for name in it}
    ids = {join(path, name): value for path, record in whole.items() for name, value in record.ids.items()}
    aliases = {
        join(path, alias): join(path, name) for path, record in whole.items() for alias, name in record.aliases.items()
    }
    again, more = _met_twice(ids, tensors)
    layouts = {path: record.layout for path, record in parts.items()}
    is_alone = not (around.tensors or more) and around.values.keys() <= parts.keys()
    is_known = is_alone and None not in layouts.values() and not any("." in path for path in parts)
    return replace(
        around,
        tensors={name: tensor for name, tensor in tensors.items() if name not in again} if again else tensors,
        values={**around.values, IDS: more} if more else around.values,
        ids={name: value for name, value in ids.items() if name not in again and name not in more},
        aliases={**{alias: again.get(name, name) for alias, name in aliases.items()}, **again},
        states=frozenset(join(path, name) for path, record in whole.items() for name in record.states) - again.keys(),
        # A partial and no lambda, so that records can be pickled.
        layout=LayoutOf(partial(_layout_of_parts, layouts)) if is_known else None,
        metadata={**around.metadata, **versions_together(parts)},
    )


def _met_twice(ids: Mapping[str, ParamId], tensors: Mapping[str, Tensor]) -> tuple[dict[str, str], dict[str, str]]:
    """The names whose ids others have, too: where it is the same tensor, the other name; else the id, as a text."""

    def are_one(one: Tensor, other: Tensor) -> bool:
        plain = one.dtype == other.dtype and one.layout == other.layout == torch.strided and not one.is_meta
        return one is other or (plain and one.is_set_to(other))

    first: dict[ParamId, str] = {}
    again: dict[str, str] = {}
    more: dict[str, str] = {}
    for name, param_id in ids.items():
        if (before := first.setdefault(param_id, name)) != name:
            if isinstance(tensors, dict) and are_one(tensors[before], tensors[name]):
                again[name] = before
            else:
                more[name] = str(param_id)
    return again, more


def part_of(record: "Record", path: str) -> "Record":
    """The part of a record below `path`, with tensors that are tied to one elsewhere, as a record of its own."""
    prefix = f"{path}."
    part = _chosen(record, lambda name: name.startswith(prefix), prefix)
    values = _values_below(record, path)
    if not part.tensors and values is None:
        raise RecordPathError(f"{record.source} has no part '{path}'")
    clones = ids_of_clones(record.values).items()
    more = {short: it for name, it in clones if (short := name.removeprefix(prefix)) in part.tensors and short != name}
    return replace(
        part,
        values=values or {},
        ids={**part.ids, **more},
        source=f"'{path}' of {record.source}",
        layout=None if record.layout is None else LayoutOf(partial(_layout_below, record.layout, path)),
        metadata=renamed_versions(record, lambda name: _below(name, path)),
    )


def without(record: "Record", paths: Iterable[str]) -> "Record":
    """The record without what lies below the paths; a tensor that is tied to one of those goes, too."""
    prefixes = tuple(f"{path}." for path in paths)
    values = {name: value for name, value in record.values.items() if not name.startswith(prefixes)}
    for path in paths:
        values = _without_value(values, path.split("."))
    tied = {alias for alias, name in record.aliases.items() if name.startswith(prefixes)}
    rest = _chosen(record, lambda name: not name.startswith(prefixes) and name not in tied, "")
    return replace(rest, values=values, source=record.source, metadata=record.metadata)


def _without_value(values: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """The values without what lies at a path, and the maps around it that are empty then."""
    name, *rest = path
    inside = values.get(name)
    if rest and not isinstance(inside, Mapping):
        return dict(values)
    left = _without_value(inside, rest) if isinstance(inside, Mapping) and rest else {}
    return {key: left if key == name else value for key, value in values.items() if key != name or left}


def _chosen(record: "Record", wants: Callable[[str], bool], prefix: str) -> "Record":
    """The tensors that have a wanted name, without what it begins with."""
    aliases = {alias: name for alias, name in record.aliases.items() if wants(alias)}
    chosen = {name: name for name in record.tensors if wants(name)}
    for alias, name in aliases.items():  # the first name of a tensor that lies elsewhere stands for it
        chosen.setdefault(name, alias)
    short = {name: new.removeprefix(prefix) for name, new in chosen.items()}
    return replace(
        record,
        tensors=renamed_tensors(record.tensors, short),
        values={},
        ids={new: record.ids[name] for name, new in short.items() if name in record.ids},
        aliases={alias.removeprefix(prefix): short[name] for alias, name in aliases.items() if chosen[name] != alias},
        states=frozenset(new for name, new in short.items() if name in record.states),
        layout=None,
        metadata={},
    )


def _values_below(record: "Record", path: str) -> dict[str, Any] | None:
    """The values below `path`, and the entries of state dicts, whose names have dots; None where there are none."""
    is_there, values = value_at(record.values, path)
    values = {str(index): value for index, value in enumerate(values)} if isinstance(values, list | tuple) else values
    below = dict(values) if is_there and isinstance(values, Mapping) else {}
    names = {name for name, _ in entries_of(below)}
    entries = {short: tree for name, tree in entries_of(record.values) if (short := _below(name, path))}
    below |= {name: {ENTRY: tree} for name, tree in entries.items() if name not in names}
    return below if below or isinstance(values, Mapping) else None


def _below(name: str, path: str) -> str | None:
    """The name below `path`, None where it is elsewhere."""
    return "" if name == path else name.removeprefix(f"{path}.") if name.startswith(f"{path}.") else None


def _layout_of_parts(layouts: Mapping[str, Any], version: BurnVersion) -> dict[str, Any]:
    return {path: known_layout(layout, version) for path, layout in layouts.items()}


def _layout_below(layout: Any, path: str, version: BurnVersion) -> Any:
    """The layout of a part; None where it can't be told."""
    layout_below = known_layout(layout, version)
    for name in path.split("."):
        if not isinstance(layout_below, Mapping):
            return None
        tag = tag_of(layout_below)
        if tag == "$option":
            layout_below, tag = layout_below["$option"], tag_of(layout_below["$option"])
        if tag is None:
            layout_below = layout_below.get(name)
        elif tag in ("$vec", "$tuple") and name.isdecimal():
            items = layout_below[tag]
            layout_below = (
                items if not isinstance(items, list) else items[int(name)] if int(name) < len(items) else None
            )
        else:
            return None
    return layout_below
