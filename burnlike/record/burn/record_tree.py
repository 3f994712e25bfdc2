"""Records as trees of maps, lists, plain values and tensors, which formats with names hold. Imports no torch.

`TreeReader` reads one from front to back within a budget, `LayoutFiller` makes one of a record and its layout.
"""

import itertools
import math
import struct
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import RecordError, RecordFormatError
from ...module.identity.param_id import ParamId
from ..bytes.budget import CONTAINER, MAX_DEPTH, MAX_DIMENSIONS, MAX_NAME, NUMBER, TEXT, TensorCost
from ..bytes.source import Cursor, Source
from ..formats import Outline, StoredTensor
from ..layout import LAYOUTS, SCALARS, Layout, holds_states, is_map, join, known_layout, put, tag_of
from ..metadata import flat, leaves
from .state_layouts import full_id, is_id, is_optimizer_record
from .tensor_collector import TensorCollector, read_dtype, with_ids_of_clones


class TreeReader(ABC):
    """Reads one value; `tensor` is what the map that describes a tensor costs."""

    tensor: TensorCost

    def __init__(self, source: Source) -> None:
        self.cursor = Cursor(source)
        self.budget = source.budget

    def whole(self) -> Any:
        """The value that the source is, to its end."""
        value = self.value(0)
        if not self.cursor.at_end():
            raise self.wrong("bytes lie behind the value")
        return value

    @abstractmethod
    def value(self, depth: int) -> Any:
        """The next value, which stands `depth` levels deep."""

    @staticmethod
    @abstractmethod
    def has_values(item: Mapping[str, Any]) -> bool:
        """True if a map that was just read is a tensor that has values."""

    def go_down(self, depth: int) -> None:
        """Take what a list or map costs, whose entries stand deeper than `depth`."""
        if depth >= MAX_DEPTH:
            raise self.wrong(f"nested too deeply (more than {MAX_DEPTH} levels)")
        self.budget.take(NUMBER + CONTAINER, 24, 1)

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.cursor.take(struct.calcsize(form)))[0]

    def text(self, count: int) -> str:
        self.budget.take(NUMBER + TEXT + 2 * count, 20, 1 + count)
        raw = self.cursor.take(count)
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            self.cursor.position += error.start - count
            raise self.wrong(f"a text is not UTF-8 ({error.reason})") from error

    def list_of(self, count: int, depth: int) -> list[Any]:
        self.go_down(depth)
        return [self.value(depth + 1) for _ in range(count)]

    def map_of(self, count: int, depth: int) -> dict[str, Any]:
        return self.map_with((self.value(depth + 1) for _ in range(count)), depth)

    def map_with(self, keys: Iterable[Any], depth: int) -> dict[str, Any]:
        """The map with these keys, which stand each before its value."""
        self.go_down(depth)
        entries: dict[str, Any] = {}
        for key in keys:
            if not isinstance(key, str) or key in entries:
                what = "comes twice" if isinstance(key, str) else "is no text"
                raise self.wrong(f"the key {key!r:.60} of a map {what}")
            entries[sys.intern(key)] = self.value(depth + 1)  # most names come in many maps
        if self.has_values(entries):
            self.budget.add_tensor(self.tensor)
        return entries

    def wrong(self, what: str) -> RecordFormatError:
        """The error that the file is as it can't be, at the place that was reached."""
        return RecordFormatError(
            f"{self.cursor.source.path}: {what}, at byte {self.cursor.position}; the file is damaged"
        )


_RANGES = {
    "usize": range(2**64),
    "u64": range(2**64),
    "u32": range(2**32),
    "i64": range(-(2**63), 2**63),
    "i32": range(-(2**31), 2**31),
}
_TYPES = {"f64": float, "f32": float, "bool": bool, "str": str}


class LayoutFiller:
    """The tensors and values of a record by their paths, and which of them have got a place.

    In a `finite` format, which has no inf and nan, None stands for these.
    """

    def __init__(self, outline: Outline, finite: bool = False) -> None:
        self.outline = outline
        self._finite = finite
        self._tensors: set[str] = set()
        self._values: set[str] = set()
        values = outline.values
        self._optimizer = is_optimizer_record(outline)
        self._states: Mapping[str, Any] = values["states"] if self._optimizer else {}
        pairs = leaves(values)
        self._plain = dict(pairs)
        self._ambiguous = {path for path, count in Counter(path for path, _ in pairs).items() if count > 1}
        plain = [f"{param_id}." for param_id in values["paths"]] if self._optimizer else self._plain
        self._tree: dict[str, Any] = {}
        for name in (*outline.entries, *outline.aliases, *self._states, *plain):
            tree = self._tree
            for part in name.split("."):
                tree = tree.setdefault(part, {})
            tree[""] = {}

    def tensor(self, path: str) -> str:
        """The name of the tensor at `path`, which is another one where a tied tensor comes again."""
        name = self.outline.aliases.get(path, path)
        if name not in self.outline.entries:
            raise RecordError(f"the record has no tensor '{path}', for which its layout has a place")
        self._tensors.add(name)
        return name

    def value(self, path: str, leaf: str) -> Any:
        """The plain value at `path`, which its layout says is a `leaf`, one of `SCALARS`."""
        values = self._states if path in self._states else self._plain
        if path not in values:
            raise RecordError(f"the record has no value '{path}', for which its layout has a place")
        if path in self._ambiguous and values is self._plain:
            raise RecordError(f"two values of the record have the path '{path}'; rename one")
        value = values[path]
        if not is_scalar(value, leaf):
            raise RecordError(f"'{path}': the layout has a place for {leaf}, got {value!r:.60}")
        if self._finite and isinstance(value, float) and not math.isfinite(value):
            return None
        self._values.add(path)
        return value

    def names_below(self, path: str) -> list[str]:
        """The next parts of the paths that begin with `path`; `[""]` where a tensor or value is there itself."""
        tree = self._tree
        for name in path.split(".") if path else ():
            if name not in tree:
                return []
            tree = tree[name]
        return list(tree)

    def _tensors_below(self, path: str) -> Iterator[str]:
        for name in (join(path, part) for part in self.names_below(path) if part):
            if name in self.outline.entries:
                yield name
            yield from self._tensors_below(name)

    def parts(self, layout: Layout, path: str) -> tuple[str | None, Any, list[tuple[str, Layout, str]]]:
        """The word of a layout, `$map` for a map of states too; what stands before its parts; and these.

        Before the parts of an option stands whether it is there, of an enum the number of the variant, of a state its
        rank. Of each part the name, the layout and the path are told.
        """
        tag, head = tag_of(layout), None
        match tag:
            case "$vec" | "$tuple":
                items = layout[tag]
                if not isinstance(items, list):
                    count = next(it for it in itertools.count() if not self.names_below(join(path, it)))
                    if count == 0:
                        self._values.add(path)  # an empty list of values
                    items = [items] * count
                below = {str(index): item for index, item in enumerate(items)}
            case "$enum":
                variants = dict(layout[tag])
                told = (
                    [layout["is"]] if layout.get("is") else [it for it in variants if self.names_below(join(path, it))]
                )
                if len(told) != 1:
                    raise RecordError(
                        f"the layout of '{path}' does not say which variant it is; add 'is' with its name"
                    )
                head, below = list(variants).index(told[0]), {told[0]: variants[told[0]]}
            case "$map":
                below = dict.fromkeys(filter(None, self.names_below(path)), layout[tag])
            case None:
                tag, below = "$map" if is_map(layout) else None, layout
            case _:
                if tag == "$option":
                    head = bool(self.names_below(path)) if layout.get("some") is None else layout["some"]
                elif tag == "$state":
                    head = self._rank(layout, path)
                return tag, head, [] if head is False else [("", layout[tag], path)]
        return tag, head, [(name, value, join(path, name)) for name, value in below.items()]

    def _rank(self, layout: Layout, path: str) -> int:
        """The number of dimensions of the parameter that an optimizer's state at `path` belongs to."""
        if layout.get("rank") is not None:
            return layout["rank"]
        ranks = [len(self.outline.entries[name].shape) for name in self._tensors_below(path)]
        if not ranks:
            raise RecordError(f"the layout of the state '{path}', which has no tensors, lacks 'rank'")
        return max(ranks)

    def check_tensors(self) -> None:
        left = [name for name in self.outline.entries if name not in self._tensors]
        if left:
            raise RecordError(
                f"the record's layout has no place for {', '.join(map(repr, left[:5]))}; make the record without one"
            )

    def unplaced(self) -> dict[str, Any]:
        values = self.outline.values
        layout = self.outline.layout
        if tag_of(layout) == "$named":
            layout = layout["$named"]
        has_place = self._states or self._tensors or holds_states(layout)
        if self._optimizer and has_place and self._values >= self._states.keys():
            values = {
                key: it for key, it in values.items() if key != "states" and (it or key not in ("paths", LAYOUTS))
            }
        if self._values and all(path in self._values or path in self._states for path in flat(values)):
            return {}
        return dict(values)


def is_scalar(value: Any, leaf: str) -> bool:
    if leaf in _RANGES:
        return type(value) is int and value in _RANGES[leaf]
    return type(value) is _TYPES[leaf]


_MOST_PARTS = 100


@dataclass(frozen=True, slots=True)
class TensorLeaf:
    """The place of a tensor in a tree that is written; with an id it is a parameter."""

    name: str
    id: ParamId | None = None


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes in a tree that is read: where they, or the `[` of their JSON array, begin, and how many they are."""

    start: int
    count: int


def item_of(outline: Outline, finite: bool = False) -> tuple[Any, dict[str, Any]]:
    """The tree of a record for a format with names, and those of the record's values that have no place in it.

    The tree has maps, lists, plain values, None and `TensorLeaf`s. In a `finite` format None stands for inf and nan.
    """
    outline = with_ids_of_clones(outline)
    fill = LayoutFiller(outline, finite)
    layout = default_layout(outline) if outline.layout is None else known_layout(outline.layout)
    item = _build(fill, layout, "")
    fill.check_tensors()
    return item, fill.unplaced()


def _build(fill: LayoutFiller, layout: Layout, path: str) -> Any:
    if layout in ("param", "tensor"):
        name = fill.tensor(path)
        return TensorLeaf(name, fill.outline.ids.get(name) if layout == "param" else None)
    if isinstance(layout, str):
        return fill.value(path, layout) if layout in SCALARS else None
    tag, head, parts = fill.parts(layout, path)
    built = {name: _build(fill, below, at) for name, below, at in parts}
    match tag:
        case "$named" | "$option":
            return built.get("")
        case "$vec" | "$tuple":
            return [*built.values()]
        case "$state":
            return {"V1": {f"Rank{head}": built[""]}}
    return built


def default_layout(outline: Outline) -> Layout:
    """The layout that names alone suggest: a map for each part of a path, lists where the parts are numbers."""
    tree: dict[str, Any] = {}
    if is_optimizer_record(outline):
        states = outline.values["states"]
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
    parts = path.split(".")
    wrong_part = bool(path) and any(name == "" or name.startswith("$") for name in parts)
    if wrong_part or len(parts) > _MOST_PARTS:
        raise RecordError(
            f"'{path:.80}' can't be the name of a tensor in a format that nests: at most {_MOST_PARTS} parts, none"
            " empty or beginning with $; rename it"
        )
    if not put(tree, path, leaf):
        raise RecordError(f"'{path}' and another name of the record can't both be in one tree; rename one")


def _with_lists(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    below = {name: _with_lists(part) for name, part in tree.items()}
    if below and list(below) == [str(index) for index in range(len(below))]:
        return {"$vec": list(below.values())}
    return below


def _scalar(value: Any) -> str:
    """The leaf that fits a plain value; that of nothing, if none does."""
    if type(value) is int:
        return next((leaf for leaf in ("usize", "i64") if is_scalar(value, leaf)), "constant")
    return {float: "f64", bool: "bool", str: "str"}.get(type(value), "constant")


Make = Callable[[Blob, str, str, tuple[int, ...], str], StoredTensor]


def outline_of_item(item: Any, source: Source, make: Make | None = None) -> Outline:
    """The record that a tree of maps, lists, plain values, None and `Blob`s holds; an id that comes twice is a tie.

    `make` makes the tensor of a blob that has not the bytes themselves.
    """
    reader = _Reader(source, make)
    tensors = reader.found
    states = states_of(item)
    if states is not None:
        layout, scalars = {}, {}
        for text, (rank, state) in states.items():
            below, values = reader.node(state, text)
            layout[text] = {"$state": below, "rank": rank}
            scalars |= {} if values is None else flat(values, text)
        return Outline(tensors.entries, values={"states": scalars, "paths": {}}, layout={"$named": layout})
    layout, values = reader.node(item, "")
    tensors.find_clones()
    plain = tensors.values({} if values is None else values if isinstance(values, dict) else {"": values})
    return Outline(tensors.entries, tensors.ids, tensors.aliases, plain, layout={"$named": layout})


class _Reader:
    def __init__(self, source: Source, make: Make | None) -> None:
        self.source = source
        self.make = make or (
            lambda blob, name, dtype, shape, stored_as: StoredTensor(name, dtype, shape, source, blob.start, stored_as)
        )
        self.found = TensorCollector(source.path)

    def node(self, item: Any, path: str) -> tuple[Layout, Any]:
        """The layout of a part, and its plain values, None if it has none."""
        if len(path) > MAX_NAME:
            raise self.found.wrong(f"{path:.80}...", f"a path of more than {MAX_NAME} characters")
        if isinstance(item, Blob):
            raise self.found.wrong(path, "bytes without a shape")
        if item is None:
            return "constant", None
        if isinstance(item, list):
            below = [self.node(part, join(path, index)) for index, part in enumerate(item)]
            values = [value for _, value in below]
            return {"$vec": [layout for layout, _ in below]}, values if any(it is not None for it in values) else None
        if isinstance(item, Mapping):
            if _is_tensor(item):
                self.found.tensor(self._tensor(item, path))
                return "tensor", None
            if _is_param(item):
                self.found.param(item["id"], self._tensor(item["param"], path))
                return "param", None
            if any(name.startswith("$") for name in item):
                raise self.found.wrong(path, "a field whose name begins with $")
            struct = {name: self.node(part, join(path, name)) for name, part in item.items()}
            values = {name: value for name, (_, value) in struct.items() if value is not None}
            return {name: layout for name, (layout, _) in struct.items()}, values or None
        leaf = _scalar(item)
        if leaf == "constant":
            raise self.found.wrong(path, f"the number {item!r:.60}, which has more than 64 bits")
        return leaf, item

    def _tensor(self, item: Mapping[str, Any], path: str) -> StoredTensor:
        if "value" in item and "bytes" not in item:
            raise self.found.wrong(
                path,
                "numbers as Burn 0.13 wrote them; load and save the file with Burn 0.14 and its feature"
                " record-backward-compat",
            )
        blob, shape = item.get("bytes"), item.get("shape")
        if not isinstance(blob, Blob):
            raise self.found.wrong(path, "no bytes")
        if not isinstance(shape, list) or not all(type(size) is int and 0 <= size < 2**63 for size in shape):
            raise self.found.wrong(path, f"the shape {shape!r:.60}")
        if len(shape) > MAX_DIMENSIONS:
            raise self.found.wrong(path, f"{len(shape)} dimensions, of which at most {MAX_DIMENSIONS} are read")
        dtype, stored_as = read_dtype(item.get("dtype"), f"{self.source.path}: '{path}'")
        self.found.check_bytes(path, blob.count, stored_as or dtype, shape)
        return self.make(blob, path, dtype, tuple(shape), stored_as)


def _is_tensor(item: Mapping[str, Any]) -> bool:
    """True if a map is a tensor, and not a module with fields of these names."""
    if item.keys() != {"bytes", "shape", "dtype"}:
        return False
    return isinstance(item["bytes"], Blob) or (isinstance(item["shape"], list) and isinstance(item["dtype"], str))


def has_values(item: Mapping[str, Any]) -> bool:
    """True if a map that was just read is a tensor that has values."""
    blob = item.get("bytes")
    return isinstance(blob, Blob) and blob.count > 0 and _is_tensor(item)


def _is_param(item: Mapping[str, Any]) -> bool:
    """True if a map is a parameter, and not a module with fields of these names."""
    if item.keys() != {"id", "param"} or not isinstance(item["id"], str):
        return False
    return isinstance(item["param"], Mapping) and not {"shape", "value"}.isdisjoint(item["param"])


def states_of(item: Any) -> dict[str, tuple[int, Any]] | None:
    """Id -> rank and state, if the tree is the record of an optimizer of v0.14 to v0.21; else None."""
    if not isinstance(item, Mapping) or not item:
        return None
    filled = {}
    for text, versioned in item.items():
        match versioned:
            case {"V1": dict() as ranked} if len(versioned) == 1 and len(ranked) == 1:
                (rank, state), *_ = ranked.items()
            case _:
                return None
        if not is_id(text) or len(rank) != 5 or rank[:4] != "Rank" or rank[4] not in "012345678":
            return None
        filled[full_id(text)] = (int(rank[4]), state)
    return filled if len(filled) == len(item) else None
