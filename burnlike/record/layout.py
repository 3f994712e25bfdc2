"""Layouts: how formats that nest arrange a record; data, so that one can be declared in JSON or YAML. Imports no torch.

A dict without `$` is a struct: its fields in the order of declaration. The rest:

- `"param"`: a parameter, its id and its tensor.
- `"tensor"`: a tensor without an id, as in the states of optimizers.
- `"constant"`: a field that is not saved; null, in bincode one zero byte.
- `"usize"`, `"u64"`, `"u32"`, `"i64"`, `"i32"`, `"f64"`, `"f32"`, `"bool"`, `"str"`: a plain value.
- `"unit"`: nothing; null, in bincode no byte at all.
- `{"$option": L}`: L or nothing. `"some": true` or `false` beside it says which; without, L is there if a tensor or
  value of it is.
- `{"$vec": L}`, `{"$vec": [L, ...]}`: a list, its length in front in bincode; of any length, or of these items.
- `{"$tuple": [L, ...]}`: a tuple or array, a list whose length is not written.
- `{"$enum": [[name, L], ...]}`: one variant of all that there are, in order; `"is": name` beside it says which. The
  name is a part of the paths below it.
- `{"$state": L, "rank": n}`: the state of an optimizer for a parameter of n dimensions, under the parameter's id. What
  holds such fields is a map from ids, its length in front in bincode. Below `$map` the rank may be left out.
- `{"$map": L}`: texts (ids) to L, as many as there are.
- `{"$named": L}`: as a file with names shows it. Lists may be of either kind, and what is there may be an option:
  enough to write other files with names, too little for bincode.

The path of a tensor or value is that of its fields, indices and variants, joined by dots.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import RecordError, nearest

Layout = Any  # one of the above

LAYOUTS = "layouts"
"""The value of an optimizer's record that says which parameters lie otherwise than Burn's: interop/state_layouts.py."""


BurnVersion = tuple[int, int]
WRITTEN: BurnVersion = (0, 21)
"""The version of Burn in whose layouts records are written; those of older versions are read."""


@dataclass(frozen=True, slots=True)
class LayoutOf:
    """A layout that `make` makes when a format needs one, for files of a version of Burn."""

    make: Callable[[BurnVersion], Layout]

    def __deepcopy__(self, memo: dict[int, Any]) -> "LayoutOf":
        """Itself: a copy would hold a copy of what tells the layout, all of a module's tensors."""
        return self


def known_layout(layout: Layout | LayoutOf, version: BurnVersion = WRITTEN) -> Layout:
    """The layout itself, made if it has yet to be: that of files of a version of Burn."""
    return layout.make(version) if isinstance(layout, LayoutOf) else layout


SCALARS = ("usize", "u64", "u32", "i64", "i32", "f64", "f32", "bool", "str")  # leaves that are plain values
LEAVES = ("param", "tensor", "constant", "unit", *SCALARS)
_TAGS = ("$option", "$vec", "$tuple", "$enum", "$state", "$map", "$named")
_EXTRA = {"$option": {"some"}, "$enum": {"is"}, "$state": {"rank"}}
_MAX_DEPTH = 64


def tag_of(layout: Layout) -> str | None:
    """The `$` word of a layout, None for leaves and structs."""
    return next((tag for tag in _TAGS if tag in layout), None) if isinstance(layout, Mapping) else None


def join(prefix: str, name: object) -> str:
    return f"{prefix}.{name}" if prefix else str(name)


def put(tree: dict[str, Any], path: str, leaf: object) -> bool:
    """Put a leaf into maps by the parts of its path; False if another one has this path, or the beginning of it."""
    *above, last = path.split(".")
    for part in above:
        tree = tree.setdefault(part, {})
        if not isinstance(tree, dict):
            return False
    is_free = last not in tree
    if is_free:
        tree[last] = leaf
    return is_free


def is_map(layout: Layout) -> bool:
    """True if what looks like a struct is a map from ids to the states of an optimizer."""
    return tag_of(layout) is None and isinstance(layout, Mapping) and "$state" in map(tag_of, layout.values())


def holds_states(layout: Layout) -> bool:
    """True if it is that of an optimizer's record."""
    return is_map(layout) or (tag_of(layout) == "$map" and tag_of(layout["$map"]) == "$state")


def check_layout(layout: Layout, path: str = "", depth: int = 0) -> None:
    """Check a layout that comes from outside."""
    place = f"the layout of '{path}'" if path else "the layout"
    if depth > _MAX_DEPTH:
        raise RecordError(f"{place} is nested too deeply (more than {_MAX_DEPTH} levels)")
    if isinstance(layout, str):
        if layout not in LEAVES:
            kinds = ", ".join(LEAVES)
            raise RecordError(f"{place}: expected one of {kinds}, got {layout!r:.80}{nearest(layout, list(LEAVES))}")
        return
    if not isinstance(layout, Mapping) or not all(isinstance(key, str) for key in layout):
        raise RecordError(f"{place}: expected a text or a map from texts, got {layout!r:.80}")
    if (tag := tag_of(layout)) is None:
        if wrong := [key for key in layout if key.startswith("$")]:
            raise RecordError(f"{place}: {wrong[0]!r} is none of {', '.join(_TAGS)}{nearest(wrong[0], list(_TAGS))}")
    elif extra := set(layout) - {tag} - _EXTRA.get(tag, set()):
        raise RecordError(f"{place}: {sorted(extra)} can't stand beside {tag}")
    for name, below in _children(layout, tag, place):
        check_layout(below, join(path, name) if name else path, depth + 1)


def _children(layout: Mapping[str, Any], tag: str | None, place: str) -> Iterator[tuple[str, Layout]]:
    if tag is None:
        yield from layout.items()
        return
    content = layout[tag]
    if tag == "$enum":
        pairs = isinstance(content, list) and all(isinstance(it, list | tuple) and len(it) == 2 for it in content)
        if not pairs or not all(isinstance(name, str) for name, _ in content):
            raise RecordError(f"{place}: $enum takes a list of [name, layout]")
        if layout.get("is") is not None and layout["is"] not in [name for name, _ in content]:
            raise RecordError(f"{place}: {layout['is']!r} is no variant of the $enum")
        yield from content
    elif tag == "$tuple" or (tag == "$vec" and isinstance(content, list)):
        if not isinstance(content, list):
            raise RecordError(f"{place}: $tuple takes a list of layouts")
        yield from ((str(index), it) for index, it in enumerate(content))
    else:
        if tag == "$option" and layout.get("some") not in (None, True, False):
            raise RecordError(f"{place}: some is true, false or left out")
        if tag == "$state" and (rank := layout.get("rank")) is not None and not (type(rank) is int and 0 <= rank <= 8):
            raise RecordError(f"{place}: the rank of $state is a number from 0 to 8")
        yield ("*" if tag in ("$vec", "$map") else ""), content
