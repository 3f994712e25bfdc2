"""Records as trees of maps, lists, plain values and tensors: what formats with names hold. Imports no torch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import RecordError
from ...module.identity.param_id import ParamId
from ..bytes.budget import MAX_DIMENSIONS, MAX_NAME
from ..bytes.source import Source
from ..layout import SCALARS, Layout, join, known_layout
from ..outline import Outline, StoredTensor
from ..values import flat
from .layout_filler import LayoutFiller, is_scalar
from .state_layouts import full_id, is_id, is_optimizer_record
from .tensor_collector import TensorCollector, read_dtype, with_ids_of_clones

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
    *above, last = path.split(".")
    wrong_part = bool(path) and any(name == "" or name.startswith("$") for name in (*above, last))
    if wrong_part or len(above) >= _MOST_PARTS or len(path) > MAX_NAME:
        raise RecordError(
            f"'{path:.80}' can't be the name of a tensor in a format that nests: at most {_MOST_PARTS} parts and"
            f" {MAX_NAME} characters, no part empty or beginning with $; rename it"
        )
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
    found = reader.found
    states = states_of(item)
    if states is not None:
        layout, scalars = {}, {}
        for text, (rank, state) in states.items():
            below, values = reader.node(state, text)
            layout[text] = {"$state": below, "rank": rank}
            scalars |= {} if values is None else flat(values, text)
        return Outline(found.entries, values={"states": scalars, "paths": {}}, layout={"$named": layout})
    layout, values = reader.node(item, "")
    found.find_clones()
    plain = found.values({} if values is None else values if isinstance(values, dict) else {"": values})
    return Outline(found.entries, found.ids, found.aliases, plain, layout={"$named": layout})


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
        if not isinstance(shape, list) or not all(type(it) is int and 0 <= it < 2**63 for it in shape):
            raise self.found.wrong(path, f"the shape {shape!r:.60}")
        if len(shape) > MAX_DIMENSIONS:
            raise self.found.wrong(path, f"{len(shape)} dimensions, of which at most {MAX_DIMENSIONS} are read")
        dtype, stored_as = read_dtype(item.get("dtype"), f"{self.source.path}: '{path}'")
        self.found.check_bytes(path, blob.count, stored_as or dtype, shape)
        return self.make(blob, path, dtype, tuple(shape), stored_as)


def _is_tensor(item: Mapping[str, Any]) -> bool:
    """Whether a map is a tensor, and not a module with fields of these names."""
    if item.keys() != {"bytes", "shape", "dtype"}:
        return False
    return isinstance(item["bytes"], Blob) or (isinstance(item["shape"], list) and isinstance(item["dtype"], str))


def has_values(item: Mapping[str, Any]) -> bool:
    """Whether a map that was just read is a tensor that has values."""
    blob = item.get("bytes")
    return isinstance(blob, Blob) and blob.count > 0 and _is_tensor(item)


def _is_param(item: Mapping[str, Any]) -> bool:
    """Whether a map is a parameter, and not a module with fields of these names."""
    if item.keys() != {"id", "param"} or not isinstance(item["id"], str):
        return False
    return isinstance(item["param"], Mapping) and not {"shape", "value"}.isdisjoint(item["param"])


def states_of(item: Any) -> dict[str, tuple[int, Any]] | None:
    """Id -> rank and state, if the tree is the record of an optimizer of v0.14 to v0.21; else None."""
    if not isinstance(item, Mapping) or not item:
        return None
    found = {}
    for text, versioned in item.items():
        match versioned:
            case {"V1": dict() as ranked} if len(versioned) == 1 and len(ranked) == 1:
                (rank, state), *_ = ranked.items()
            case _:
                return None
        if not is_id(text) or len(rank) != 5 or rank[:4] != "Rank" or rank[4] not in "012345678":
            return None
        found[full_id(text)] = (int(rank[4]), state)
    return found if len(found) == len(item) else None
