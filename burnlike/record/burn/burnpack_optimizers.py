"""The content of a burnpack file, and records of optimizers as burnpack names them. Imports no torch.

The file has `"<id in decimal>.<field path>"`, the number of dimensions of each parameter as the scalar `__rank`, and
its path in the free metadata, under the id. The record has the id's 13 characters, `values["states"]` and
`values["paths"]`.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ...errors import RecordFormatError
from ...module.identity.param_id import ParamId
from .. import metadata
from ..bytes.budget import Budget
from ..formats import Outline, TensorEntry
from ..layout import Layout, join, put, tag_of
from .state_layouts import id_of, leaves_of, state_layout

_RANK = "__rank"
_MAX_RANK = 8


class Scalar(NamedTuple):
    """A plain value, and its variant: `Int` (signed, 64 bits), `UInt`, `Float` or `Bool`."""

    variant: str
    value: int | float | bool


LEAVES = {"UInt": "u64", "Int": "i64", "Float": "f64", "Bool": "bool"}
"""Variant of a scalar -> the leaf of a layout that it is."""


@dataclass(frozen=True, slots=True)
class Pack:
    """The content of a file.

    Attributes:
        tensors: name -> the tensor, under the name that the record has for it, in the order of the bytes.
        tied: name of a tensor whose bytes are stored once only -> the name that they are stored for.
        ids: name -> 64-bit id of the parameter that the tensor is, or belongs to.
        metadata: free texts.
        scalars: plain values.
    """

    tensors: Mapping[str, TensorEntry] = field(default_factory=dict)
    tied: Mapping[str, str] = field(default_factory=dict)
    ids: Mapping[str, int] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    scalars: Mapping[str, Scalar] = field(default_factory=dict)


def scalar_of(value: Any, leaf: str | None) -> Scalar | None:
    """The scalar that a plain value is, None if it is none; `leaf` is its type in a layout, if that is known."""
    if isinstance(value, bool):
        return Scalar("Bool", value)
    if isinstance(value, float):
        return Scalar("Float", value)
    if not isinstance(value, int):
        return None
    if leaf in ("f64", "f32") and -(2**53) <= value <= 2**53:
        return Scalar("Float", float(value))
    if 0 <= value < 2**64 and not (leaf in ("i64", "i32") and value < 2**63):
        return Scalar("UInt", value)
    return Scalar("Int", value) if -(2**63) <= value < 2**63 else None


def nested(leaves: Mapping[str, Any]) -> dict[str, Any]:
    """Maps by the parts of the names; a ValueError has the name that is also the beginning of another one."""
    states: dict[str, Any] = {}
    for name, value in leaves.items():
        if not put(states, name, value):
            raise ValueError(name)
    return states


def has_tag(name: str) -> bool:
    """True if a part of the name would be taken for one of the words that layouts have."""
    return name.startswith("$") or ".$" in name


def is_optimizer(pack: Pack) -> bool:
    """True if the file of this content is read as that of an optimizer."""
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
    index = int(digits)
    return index if str(index) == digits and index < 2**64 else None


def _is_rank(name: str) -> bool:
    return name.partition(".")[2] == _RANK


def outline_of(pack: Pack, path: str, budget: Budget) -> Outline:
    for name, scalar in pack.scalars.items():
        if _is_rank(name) and (scalar.variant != "UInt" or not 0 <= scalar.value <= _MAX_RANK):
            raise RecordFormatError(f"{path}: '{name}' is no number of dimensions: {scalar.value}; it is damaged")
    try:
        layout = layout_of(pack)
    except ValueError as error:
        raise RecordFormatError(f"{path}: '{error}' and another name can't both be in one state") from error
    digits = {text: str(ParamId.parse(text).value) for text in layout}
    names = {*pack.tensors, *pack.scalars}
    lengths = {it for text, state in layout.items() for it, _ in _lists(state["$state"], digits[text], names)}
    recorded = {it: f"{ParamId(_owner(it) or 0)}.{it.partition('.')[2]}" for it in names}
    entries = {recorded[key]: replace(entry, name=recorded[key]) for key, entry in pack.tensors.items()}
    states = {recorded[key]: at.value for key, at in pack.scalars.items() if not _is_rank(key) and key not in lengths}
    paths = {text: pack.metadata[digit] for text, digit in digits.items() if digit in pack.metadata}
    others = {key: text for key, text in pack.metadata.items() if key not in digits.values()}
    decoded = metadata.decode(others, entries, path, budget)
    more_states, more_paths = (decoded.values.get(key, {}) for key in ("states", "paths"))
    if not isinstance(more_states, dict) or not isinstance(more_paths, dict):
        raise RecordFormatError(f"{path}: its values contradict its scalars; it is damaged")
    values = {**decoded.values, "states": {**more_states, **states}, "paths": {**more_paths, **paths}}
    return replace(decoded, values=values, layout=layout if decoded.layout is None else decoded.layout)


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
    layout = {}
    for digits, state in leaves.items():  # a state of one of Burn's optimizers, or what the names suggest
        described = state_layout(state) or {"$named": _with_lists(nested(state), digits, pack)}
        layout[str(ParamId(int(digits)))] = {"$state": described, "rank": ranks.get(digits, 0)}
    return layout


def _with_lists(layout: Layout, path: str, pack: Pack) -> Layout:
    """Lists are told by their length, the scalar `len`."""
    if isinstance(layout, str):
        return layout
    below = {name: _with_lists(part, join(path, name), pack) for name, part in layout.items()}
    items = [below.get(str(index)) for index in range(len(below) - 1)]
    if below.get("len") == "u64" and None not in items and pack.scalars[join(path, "len")].value == len(items):
        return {"$vec": items}
    return below


def _lists(layout: Layout, path: str, names: set[str]) -> Iterator[tuple[str, int]]:
    """The names of the scalars that say how long lists are, and what they say."""
    if isinstance(layout, str):
        return
    tag = tag_of(layout)
    if tag is None:
        for name, below in layout.items():
            yield from _lists(below, join(path, name), names)
    elif tag == "$vec":
        items = layout[tag]
        if not isinstance(items, list):
            there = {name[len(path) + 1 :].partition(".")[0] for name in names if name.startswith(f"{path}.")}
            items = [items] * next(count for count in itertools.count() if str(count) not in there)
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
    digits = {text: str(ParamId.parse(text).value) for text in layouts}
    types = {it: leaf for text, layout in layouts.items() for it, leaf in leaves_of(layout, text)}
    filed = {
        it: ".".join((digits[text], rest))
        for it in (*outline.entries, *states)
        for text, _, rest in [it.partition(".")]
    }
    tensors = {filed[key]: entry for key, entry in outline.entries.items()}
    scalars: dict[str, Scalar] = {}
    left: dict[str, Any] = {}
    for name, value in states.items():
        scalar = scalar_of(value, types.get(name))
        if scalar is None or name.endswith(f".{_RANK}"):
            left[name] = value
        else:
            scalars[filed[name]] = scalar
    ranks: dict[str, int] = {}
    for name, entry in outline.entries.items():
        text = name.partition(".")[0]
        ranks[text] = max(ranks.get(text, 0), len(entry.shape))
    names = {*tensors, *scalars}
    for text, layout in layouts.items():
        rank = layout.get("rank") if isinstance(layout, Mapping) else None
        scalars[f"{digits[text]}.{_RANK}"] = Scalar("UInt", rank if type(rank) is int else ranks.get(text, 0))
        for name, count in _lists(layout, digits[text], names):
            scalars.setdefault(name, Scalar("UInt", count))
    texts = {digits[key]: path for key, path in paths.items() if key in layouts and isinstance(path, str)}
    left_paths = {key: path for key, path in paths.items() if key not in layouts or not isinstance(path, str)}
    values = {key: value for key, value in outline.values.items() if key not in ("states", "paths")}
    values |= {key: value for key, value in (("states", left), ("paths", left_paths)) if value}
    ids = {tensor: _owner(tensor) or 0 for tensor in tensors}
    return Pack(tensors, {}, ids, texts, scalars), replace(outline, ids={}, values=values)


def _state_layouts(outline: Outline, names: tuple[str, ...], paths: Mapping[str, Any]) -> dict[str, Layout]:
    """Id -> layout of its state, `{}` where that isn't known; without any layout each path stands for a state."""
    layout = outline.layout
    while tag_of(layout) == "$named":
        layout = layout["$named"]
    fields = layout if isinstance(layout, Mapping) and tag_of(layout) is None else {}
    every = layout["$map"] if tag_of(layout) == "$map" else {}
    owners = (name.partition(".")[0] for name in names)
    texts: list[str] = list(dict.fromkeys((*fields, *owners, *([] if fields else paths))))
    return {text: fields.get(text, every) for text in texts if id_of(f"{text}.") is not None}
