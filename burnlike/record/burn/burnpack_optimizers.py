"""Records of optimizers as burnpack names them. Imports no torch.

The file has `"<id in decimal>.<field path>"`, the number of dimensions of each parameter as the scalar `__rank`, and
its path in the free metadata, under the id. The record has the id's 13 characters, `values["states"]` and
`values["paths"]`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ...errors import RecordFormatError
from ...module.identity.param_id import ParamId
from .. import metadata
from ..bytes.budget import Budget
from ..layout import Layout, join, tag_of
from ..outline import Outline, TensorEntry
from .burnpack_content import LEAVES, Pack, Scalar, has_tag, nested, scalar_of
from .state_layouts import id_of, leaves_of, state_layout

_RANK = "__rank"
_MAX_RANK = 8


def is_optimizer(pack: Pack) -> bool:
    """Whether the file of this content is read as that of an optimizer."""
    return (
        any(name.endswith(f".{_RANK}") for name in pack.scalars)
        and not any(has_tag(name) for name in (*pack.scalars, *pack.tensors))
        and all(_owner(name) is not None for name in pack.scalars)
        and all(_owner(name) == pack.ids.get(name, -1) for name in pack.tensors)
    )


def _owner(name: str) -> int | None:
    digits, _, rest = name.partition(".")
    if not rest or len(digits) > 20 or not (digits.isascii() and digits.isdecimal()):
        return None
    found = int(digits)
    return found if str(found) == digits and found < 2**64 else None


def _rest(name: str) -> str:
    return name.partition(".")[2]


def outline_of(pack: Pack, path: str, budget: Budget) -> Outline:
    layout = _checked_layout(pack, path)
    folded = {it for it in pack.scalars if _rest(it) == _RANK} | _lengths(layout, pack).keys()
    entries = {
        it: replace(entry, name=it) for it, entry in ((_recorded(it), entry) for it, entry in pack.tensors.items())
    }
    states = {_recorded(it): scalar.value for it, scalar in pack.scalars.items() if it not in folded}
    texts = {str(ParamId.parse(it).value): it for it in layout}
    paths = {texts[key]: text for key, text in pack.metadata.items() if key in texts}
    others = {key: text for key, text in pack.metadata.items() if key not in texts}
    found = metadata.decode(others, entries, path, budget)
    more_states, more_paths = (found.values.get(key, {}) for key in ("states", "paths"))
    if not isinstance(more_states, dict) or not isinstance(more_paths, dict):
        raise RecordFormatError(f"{path}: its values contradict its scalars; it is damaged")
    values = {**found.values, "states": {**more_states, **states}, "paths": {**more_paths, **paths}}
    return replace(found, values=values, layout=layout if found.layout is None else found.layout)


def _recorded(name: str) -> str:
    digits, _, rest = name.partition(".")
    return f"{ParamId(int(digits))}.{rest}"


def _checked_layout(pack: Pack, path: str) -> Layout:
    for name, scalar in pack.scalars.items():
        if _rest(name) == _RANK and (scalar.variant != "UInt" or not 0 <= scalar.value <= _MAX_RANK):
            raise RecordFormatError(f"{path}: '{name}' is no number of dimensions: {scalar.value}; it is damaged")
    try:
        return layout_of(pack)
    except ValueError as error:
        raise RecordFormatError(f"{path}: '{error}' and another name can't both be in one state") from error


def layout_of(pack: Pack) -> Layout:
    """The layout that an optimizer's file suggests.

    Raises:
        ValueError: a name is also the beginning of another one.
    """
    leaves: dict[str, dict[str, str]] = {}
    ranks: dict[str, int] = {}
    for name, entry in pack.tensors.items():
        digits, _, rest = name.partition(".")
        leaves.setdefault(digits, {})[rest] = "tensor"
        ranks[digits] = max(ranks.get(digits, 0), len(entry.shape))
    for name, scalar in pack.scalars.items():
        digits, _, rest = name.partition(".")
        state = leaves.setdefault(digits, {})
        if rest == _RANK:
            ranks[digits] = int(scalar.value)
        else:
            state[rest] = LEAVES[scalar.variant]
    return {
        str(ParamId(int(digits))): {"$state": _state(state, digits, pack), "rank": ranks.get(digits, 0)}
        for digits, state in leaves.items()
    }


def _state(leaves: Mapping[str, str], digits: str, pack: Pack) -> Layout:
    """The layout of one state: that of Burn's optimizer which has these leaves, or what the names suggest."""
    known = state_layout(leaves)
    return {"$named": _with_lists(nested(leaves), digits, pack)} if known is None else known


def _with_lists(layout: Layout, path: str, pack: Pack) -> Layout:
    """Lists are told by their length, the scalar `len`."""
    if isinstance(layout, str):
        return layout
    below = {name: _with_lists(part, join(path, name), pack) for name, part in layout.items()}
    items = [below.get(str(index)) for index in range(len(below) - 1)]
    if below.get("len") == "u64" and None not in items and pack.scalars[join(path, "len")].value == len(items):
        return {"$vec": items}
    return below


def _lengths(layout: Layout, pack: Pack) -> dict[str, int]:
    """The names of the scalars that say how long lists are, and what they say."""
    found: dict[str, int] = {}
    names = {*pack.tensors, *pack.scalars}
    for text, state in layout.items():
        found.update(_lists(state["$state"], str(ParamId.parse(text).value), names))
    return found


def _lists(layout: Layout, path: str, names: set[str]) -> Iterator[tuple[str, int]]:
    if isinstance(layout, str):
        return
    tag = tag_of(layout)
    if tag is None:
        for name, below in layout.items():
            yield from _lists(below, join(path, name), names)
    elif tag == "$vec":
        items = layout[tag]
        if not isinstance(items, list):
            count = 0
            while any(name == f"{path}.{count}" or name.startswith(f"{path}.{count}.") for name in names):
                count += 1
            items = [items] * count
        yield join(path, "len"), len(items)
        for index, below in enumerate(items):
            yield from _lists(below, join(path, index), names)
    elif tag in ("$option", "$named", "$state"):
        yield from _lists(layout[tag], path, names)


def pack_of(outline: Outline) -> tuple[Pack, Outline]:
    """The content of the file for an optimizer's record, and the part for which the file has no place."""
    states: Mapping[str, Any] = outline.values["states"]
    paths: Mapping[str, Any] = outline.values["paths"]
    layouts = _state_layouts(outline, (*outline.entries, *states), paths)
    types = {it: leaf for text, layout in layouts.items() for it, leaf in leaves_of(layout, text)}
    tensors: dict[str, TensorEntry] = {_filed(it): entry for it, entry in outline.entries.items()}
    ids = {it: _owner(it) or 0 for it in tensors}
    scalars: dict[str, Scalar] = {}
    left: dict[str, Any] = {}
    for name, value in states.items():
        found = scalar_of(value, types.get(name))
        if found is None or name.endswith(f".{_RANK}"):
            left[name] = value
        else:
            scalars[_filed(name)] = found
    ranks: dict[str, int] = {}
    for name, entry in outline.entries.items():
        text = name.partition(".")[0]
        ranks[text] = max(ranks.get(text, 0), len(entry.shape))
    names = {*tensors, *scalars}
    for text, layout in layouts.items():
        digits = str(ParamId.parse(text).value)
        rank = layout.get("rank") if isinstance(layout, Mapping) else None
        scalars[f"{digits}.{_RANK}"] = Scalar("UInt", rank if type(rank) is int else ranks.get(text, 0))
        lengths = dict(_lists(layout, digits, names))
        scalars.update({it: Scalar("UInt", count) for it, count in lengths.items() if it not in scalars})
    texts = {
        str(ParamId.parse(it).value): path for it, path in paths.items() if it in layouts and isinstance(path, str)
    }
    left_paths = {it: path for it, path in paths.items() if it not in layouts or not isinstance(path, str)}
    values = {key: value for key, value in outline.values.items() if key not in ("states", "paths")}
    values |= {key: value for key, value in (("states", left), ("paths", left_paths)) if value}
    return Pack(tensors, {}, ids, texts, scalars), replace(outline, ids={}, values=values)


def _filed(name: str) -> str:
    text, _, rest = name.partition(".")
    return f"{ParamId.parse(text).value}.{rest}"


def _state_layouts(outline: Outline, names: tuple[str, ...], paths: Mapping[str, Any]) -> dict[str, Layout]:
    """Id -> layout of its state, `{}` where that isn't known; without any layout each path stands for a state."""
    layout = outline.layout
    while tag_of(layout) == "$named":
        layout = layout["$named"]
    known = layout if isinstance(layout, Mapping) and tag_of(layout) is None else {}
    every = layout["$map"] if tag_of(layout) == "$map" else {}
    owners = (name.partition(".")[0] for name in names)
    texts: list[str] = list(dict.fromkeys((*known, *owners, *([] if known else paths))))
    return {text: known.get(text, every) for text in texts if id_of(f"{text}.") is not None}
