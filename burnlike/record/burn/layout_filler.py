"""Fills the places of a layout from a record, for formats that write one. Imports no torch."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import RecordError
from ..layout import LAYOUTS, Layout, holds_states, is_map, join, tag_of
from ..outline import Outline
from ..values import flat, leaves
from .state_layouts import is_optimizer_record

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
        found = values[path]
        if not is_scalar(found, leaf):
            raise RecordError(f"'{path}': the layout has a place for {leaf}, got {found!r:.60}")
        if self._finite and isinstance(found, float) and not math.isfinite(found):
            return None
        self._values.add(path)
        return found

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
                below = {str(index): it for index, it in enumerate(items)}
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
        return tag, head, [(name, it, join(path, name)) for name, it in below.items()]

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
