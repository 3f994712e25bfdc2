"""Records as trees of maps, lists, plain values and tensors: what formats with names hold. Imports no torch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from ...errors import RecordError, RecordFormatError
from ...module.param_id import ParamId
from ..layout import SCALARS, Layout, join, tag_of
from ..outline import Outline, StoredTensor, byte_count
from ..source import Source
from .dtypes import read_dtype

MAX_DEPTH = 128
"""Levels that files may be nested."""


@dataclass(frozen=True, slots=True)
class TensorLeaf:
    """The place of a tensor in a tree that is written; with an id it is a parameter."""

    name: str
    id: ParamId | None = None


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes in a tree that is read: where they are, and how many.

    Attributes:
        start: offset in the source.
        count: how many bytes.
        text: whether they are written as a JSON array of numbers, whose `[` is at `start`.
    """

    start: int
    count: int
    text: bool = False


def item_of(outline: Outline) -> tuple[Any, dict[str, Any]]:
    """The tree of a record for a format with names.

    Returns:
        Maps, lists, plain values, None and `TensorLeaf`s; and those of the record's values that have no place in it.

    Raises:
        RecordError: the layout has no place for a tensor, or the record lacks one that the layout has.
    """
    builder = _Builder(outline)
    layout = default_layout(outline) if outline.layout is None else outline.layout
    item = builder.build(layout, "")
    left = [name for name in outline.entries if name not in builder.placed]
    if left:
        raise RecordError(
            f"the record's layout has no place for {', '.join(map(repr, left[:5]))}; make the record without one"
        )
    return item, builder.unplaced()


class _Builder:
    def __init__(self, outline: Outline) -> None:
        self.outline = outline
        self.placed: set[str] = set()
        self._values: set[str] = set()
        self._states: Mapping[str, Any] = outline.values.get("states") or {}
        self._tree: dict[str, Any] = {}
        for name in (*outline.entries, *outline.aliases, *self._states, *_flat(outline.values)):
            tree = self._tree
            for part in name.split("."):
                tree = tree.setdefault(part, {})
            tree[""] = {}

    def build(self, layout: Layout, path: str) -> Any:
        """The tree of the part at `path`."""
        if isinstance(layout, str):
            return self._leaf(layout, path)
        match tag_of(layout):
            case None:
                return {name: self.build(below, join(path, name)) for name, below in layout.items()}
            case "$named" as tag:
                return self.build(layout[tag], path)
            case "$option":
                return self.build(layout["$option"], path) if self.is_there(layout, path) else None
            case "$vec" | "$tuple" as tag:
                return [
                    self.build(below, join(path, index)) for index, below in enumerate(self.items(layout[tag], path))
                ]
            case "$enum":
                name, below = self.variant(layout, path)
                return {name: self.build(below, join(path, name))}
            case "$map":
                names = self.names_below(path)
                return {name: self.build(layout["$map"], join(path, name)) for name in names}
            case _:
                return {"V1": {f"Rank{layout['rank']}": self.build(layout["$state"], path)}}

    def _leaf(self, leaf: str, path: str) -> Any:
        if leaf in ("param", "tensor"):
            name = self.outline.aliases.get(path, path)
            if name not in self.outline.entries:
                raise RecordError(f"the record has no tensor '{path}', for which its layout has a place")
            self.placed.add(name)
            return TensorLeaf(name, self.outline.ids.get(name) if leaf == "param" else None)
        if leaf not in SCALARS:
            return None
        return self.value(path)

    def value(self, path: str) -> Any:
        """The plain value at `path`.

        Raises:
            RecordError: there is none.
        """
        if path in self._states:
            self._values.add(path)
            return self._states[path]
        found: Any = self.outline.values
        for name in path.split("."):
            try:
                found = found[int(name)] if isinstance(found, list | tuple) else found[name]
            except (KeyError, IndexError, ValueError, TypeError):
                raise RecordError(f"the record has no value '{path}', for which its layout has a place") from None
        self._values.add(path)
        return found

    def is_there(self, layout: Layout, path: str) -> bool:
        """Whether an option is there."""
        known = layout.get("some")
        return bool(self.names_below(path)) if known is None else known

    def names_below(self, path: str) -> list[str]:
        """The next parts of the paths that begin with `path`; `[""]` where a tensor or value is there itself."""
        tree = self._tree
        for name in path.split(".") if path else ():
            if name not in tree:
                return []
            tree = tree[name]
        return list(tree)

    def items(self, content: Layout, path: str) -> list[Layout]:
        """The layouts of a list's items."""
        if isinstance(content, list):
            return content
        count = 0
        while self.names_below(join(path, count)):
            count += 1
        return [content] * count

    def variant(self, layout: Layout, path: str) -> tuple[str, Layout]:
        """Name and layout of the variant that an enum is.

        Raises:
            RecordError: it can't be told.
        """
        variants = dict(layout["$enum"])
        names = (
            [layout["is"]] if layout.get("is") else [name for name in variants if self.names_below(join(path, name))]
        )
        if len(names) != 1:
            raise RecordError(f"the layout of '{path}' does not say which variant it is; add 'is' with its name")
        return names[0], variants[names[0]]

    def unplaced(self) -> dict[str, Any]:
        """The values without those that have a place."""
        values = self.outline.values
        if "states" in values and self._values >= self._states.keys():
            values = {name: value for name, value in values.items() if name != "states"}
            if not values.get("paths"):
                values.pop("paths", None)
        if self._values and all(path in self._values or path in self._states for path in _flat(values)):
            return {}
        return dict(values)


def _flat(values: Any, path: str = "") -> list[str]:
    """The paths of all plain values."""
    if isinstance(values, Mapping):
        return [name for key, below in values.items() for name in _flat(below, join(path, key))]
    if isinstance(values, list | tuple):
        return [name for index, below in enumerate(values) for name in _flat(below, join(path, index))]
    return [path]


def default_layout(outline: Outline) -> Layout:
    """The layout that names alone suggest: a map for each part of a path, lists where the parts are numbers."""
    states = outline.values.get("states")
    tree: dict[str, Any] = {}
    if isinstance(states, Mapping) and "paths" in outline.values:
        for name in (*states, *outline.entries):
            param_id, _, path = name.partition(".")
            leaf = "tensor" if name in outline.entries else _scalar(states[name])
            state = tree.setdefault(param_id, {"$state": {}, "rank": 0})
            _put(state["$state"], path, leaf)
            if leaf == "tensor":
                state["rank"] = max(state["rank"], len(outline.entries[name].shape))
        return tree
    for name in outline.entries:
        _put(tree, name, "param" if name in outline.ids else "tensor")
    for alias, name in outline.aliases.items():
        if name in outline.ids:
            _put(tree, alias, "param")
    return {"$named": _with_lists(tree)}


def _put(tree: dict[str, Any], path: str, leaf: str) -> None:
    *above, last = path.split(".")
    for name in above:
        tree = tree.setdefault(name, {})
        if not isinstance(tree, dict):
            break
    if not isinstance(tree, dict) or last in tree:
        raise RecordError(f"'{path}' and another name of the record can't both be in one tree; rename one")
    tree[last] = leaf


def _with_lists(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    below = {name: _with_lists(part) for name, part in tree.items()}
    if below and list(below) == [str(index) for index in range(len(below))]:
        return {"$vec": list(below.values())}
    return below


def _scalar(value: Any) -> str:
    return {bool: "bool", int: "i64" if isinstance(value, int) and value < 0 else "usize", float: "f64"}.get(
        type(value), "str"
    )


Make = Callable[[Blob, str, str, tuple[int, ...], str], StoredTensor]


def outline_of_item(item: Any, source: Source, make: Make | None = None) -> Outline:
    """The record that a tree holds; ids that come twice are aliases of one tied tensor.

    Args:
        item: maps, lists, plain values, None and `Blob`s.
        source: where the blobs are.
        make: the tensor of (blob, name, dtype, shape, dtype of the bytes); None is for blobs of the bytes themselves.

    Raises:
        RecordFormatError: it is no record.
    """
    return _Reader(source, make).read(item)


class _Reader:
    def __init__(self, source: Source, make: Make | None) -> None:
        self.source = source
        self.make = make or self._raw
        self.entries: dict[str, StoredTensor] = {}
        self.ids: dict[str, ParamId] = {}
        self.names: dict[ParamId, str] = {}
        self.aliases: dict[str, str] = {}

    def _raw(self, blob: Blob, name: str, dtype: str, shape: tuple[int, ...], stored_as: str) -> StoredTensor:
        return StoredTensor(name, dtype, shape, self.source, blob.start, stored_as)

    def read(self, item: Any) -> Outline:
        """The outline of the whole tree."""
        states = states_of(item)
        if states is not None:
            return self._read_states(states)
        layout, values = self._node(item, "")
        found = {} if values is None else values if isinstance(values, dict) else {"": values}
        return Outline(self.entries, self.ids, self.aliases, found, layout={"$named": layout})

    def _read_states(self, states: Mapping[str, tuple[int, Any]]) -> Outline:
        layout, scalars = {}, {}
        for text, (rank, state) in states.items():
            below, values = self._node(state, text)
            layout[text] = {"$state": below, "rank": rank}
            for path in () if values is None else _flat(values):
                scalars[join(text, path)] = _at(values, path)
        return Outline(self.entries, values={"states": scalars, "paths": {}}, layout={"$named": layout})

    def _node(self, item: Any, path: str) -> tuple[Layout, Any]:
        """The layout of a part, and its plain values, None if it has none."""
        if isinstance(item, Blob):
            raise self._wrong(path, "bytes without a shape")
        if item is None:
            return "constant", None
        if isinstance(item, list):
            below = [self._node(part, join(path, index)) for index, part in enumerate(item)]
            values = [value for _, value in below]
            return {"$vec": [layout for layout, _ in below]}, values if any(it is not None for it in values) else None
        if isinstance(item, Mapping):
            if item.keys() == {"bytes", "shape", "dtype"} and isinstance(item["bytes"], Blob):
                self.entries[path] = self._tensor(item, path)
                return "tensor", None
            if item.keys() == {"id", "param"} and isinstance(item["param"], Mapping):
                return self._param(item, path), None
            struct = {name: self._node(part, join(path, name)) for name, part in item.items()}
            values = {name: value for name, (_, value) in struct.items() if value is not None}
            return {name: layout for name, (layout, _) in struct.items()}, values or None
        return _scalar(item), item

    def _param(self, item: Mapping[str, Any], path: str) -> Layout:
        try:
            param_id = ParamId.parse(item["id"])
        except (ValueError, TypeError, AttributeError) as error:
            raise self._wrong(path, f"the id {item['id']!r:.60} ({error})") from error
        tensor = self._tensor(item["param"], path)
        first = self.names.setdefault(param_id, path)
        if first == path:
            self.entries[path] = tensor
            self.ids[path] = param_id
        elif same_values(self.entries[first], tensor):
            self.aliases[path] = first
        else:
            raise self._wrong(path, f"the ParamId of '{first}' ({param_id}), but other values")
        return "param"

    def _tensor(self, item: Mapping[str, Any], path: str) -> StoredTensor:
        if "value" in item and "bytes" not in item:
            raise self._wrong(path, "numbers as Burn 0.13 wrote them; convert the file with Burn 0.14 first")
        blob, shape = item.get("bytes"), item.get("shape")
        if not isinstance(blob, Blob):
            raise self._wrong(path, "no bytes")
        if not isinstance(shape, list) or not all(type(it) is int and 0 <= it < 2**63 for it in shape):
            raise self._wrong(path, f"the shape {shape!r:.60}")
        dtype, stored_as = read_dtype(item.get("dtype"), f"{self.source.path}: '{path}'")
        if prod(shape) > blob.count or byte_count(stored_as or dtype, shape) != blob.count:
            raise self._wrong(path, f"{blob.count} bytes for {dtype} {shape[:16]}")
        return self.make(blob, path, dtype, tuple(shape), stored_as)

    def _wrong(self, path: str, what: str) -> RecordFormatError:
        return RecordFormatError(f"{self.source.path}: '{path}' has {what}; it is damaged or no record of Burn's")


def states_of(item: Any) -> dict[str, tuple[int, Any]] | None:
    """Id -> rank and state, if the tree is the record of an optimizer of v0.21; else None."""
    if not isinstance(item, Mapping) or not item:
        return None
    found = {}
    for text, versioned in item.items():
        match versioned:
            case {"V1": dict() as ranked} if len(versioned) == 1 and len(ranked) == 1:
                (rank, state), *_ = ranked.items()
            case _:
                return None
        if len(text) != 13 or len(rank) != 5 or rank[:4] != "Rank" or rank[4] not in "012345678":
            return None
        found[text] = (int(rank[4]), state)
    return found


def same_values(one: StoredTensor, other: StoredTensor) -> bool:
    """Whether two tensors of a file have the same dtype, shape and bytes."""
    if (one.dtype, one.shape, one.stored_as) != (other.dtype, other.shape, other.stored_as):
        return False
    step = 1 << 20
    for begin in range(0, one.stored_bytes, step):
        first, second = bytearray(min(step, one.stored_bytes - begin)), bytearray(min(step, one.stored_bytes - begin))
        one.read_into(begin, memoryview(first))
        other.read_into(begin, memoryview(second))
        if first != second:
            return False
    return True


def _at(values: Any, path: str) -> Any:
    if path == "":
        return values
    for name in path.split("."):
        values = values[int(name)] if isinstance(values, list) else values[name]
    return values
