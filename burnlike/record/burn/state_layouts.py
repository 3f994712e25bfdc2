"""Records of optimizers: how they are recognized, and the layouts of the states of Burn's rules. Imports no torch.

Files with names but without order (burnpack) tell a state by its names; other formats need the order of its fields.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ...module.identity.param_id import ParamId
from ..formats import Outline
from ..layout import BurnVersion, Layout, join, tag_of

_MOMENTS = {"time": "usize", "moment_1": "tensor", "moment_2": "tensor"}
_ADAM = {"momentum": {**_MOMENTS, "max_moment_2": {"$option": "tensor"}}}
STATES: Mapping[str, Layout] = {
    "Sgd": {"momentum": {"$option": {"velocity": "tensor"}}},
    "Muon": {"momentum": {"velocity": "tensor"}},  # read as Sgd's: they differ in bincode alone
    "Adam": _ADAM,
    "AdamW": _ADAM,
    "AdaGrad": {"lr_decay": {"time": "usize", "sum": "tensor"}},
    "RmsProp": {
        "square_avg": {"square_avg": "tensor"},
        "centered": {"grad_avg": {"$option": "tensor"}, "avg": "tensor"},
        "momentum": {"$option": {"buf": "tensor"}},
    },
    "Adan": {
        "momentum": {
            "time": "usize",
            "exp_avg": "tensor",
            "exp_avg_sq": "tensor",
            "exp_avg_diff": "tensor",
            "neg_pre_grad": "tensor",
        }
    },
    "Lion": {"momentum": "tensor"},
    "Lamb": _MOMENTS,
    "Adafactor": {"time": "usize", "second_moment": "tensor", "column_second_moment": {"$option": "tensor"}},
}
"""The state of each of Burn's optimizers, fields in the order of their declaration.

The rules here have states of the same fields, but import torch: `tests/optim/rules/test_every_rule.py` compares them.
"""


def states_before(layout: Layout, version: BurnVersion) -> Layout:
    """The layout in files of an older Burn: Adam's and AdamW's states had no `max_moment_2` before 0.21."""
    if version >= (0, 21) or not isinstance(layout, Mapping):
        return layout
    if layout.keys() == _ADAM["momentum"].keys():
        return _MOMENTS
    return {name: states_before(below, version) for name, below in layout.items()}


_SAME = {"usize": "u64", "u32": "u64", "i32": "i64"}


def state_layout(leaves: Mapping[str, str]) -> Layout | None:
    """The layout of the state that has these leaves, its options said; None if no optimizer of Burn's has them.

    `leaves` has the path within the state -> `"tensor"` or the type of a plain value.
    """
    for layout in STATES.values():
        used: set[str] = set()
        matched = _matched(layout, "", leaves, used)
        if matched is not None and used == leaves.keys():
            return matched
    return None


def _matched(layout: Layout, path: str, leaves: Mapping[str, str], used: set[str]) -> Layout | None:
    """The layout with its options said; None if something that it needs isn't there."""
    if isinstance(layout, str):
        leaf = leaves.get(path)
        if leaf is None or _SAME.get(layout, layout) != _SAME.get(leaf, leaf):
            return None
        used.add(path)
        return layout
    if tag_of(layout) == "$option":
        below = _matched(layout["$option"], path, leaves, used)
        return {"$option": layout["$option"] if below is None else below, "some": below is not None}
    struct = {name: _matched(below, join(path, name), leaves, used) for name, below in layout.items()}
    return None if None in struct.values() else struct


def normal(layout: Any) -> Any:
    """The layout without what makes no difference where names are written: widths of integers, which options are."""
    if isinstance(layout, str):
        return _SAME.get(layout, layout)
    if isinstance(layout, list | tuple):
        return [normal(below) for below in layout]
    if not isinstance(layout, Mapping):
        return layout
    match tag_of(layout):
        case "$named":
            return normal(layout["$named"])
        case "$option":
            return {"$option": normal(layout["$option"])}
        case _:
            return {key: normal(part) for key, part in layout.items()}


def leaves_of(layout: Layout, path: str = "") -> Iterator[tuple[str, str]]:
    """Path and type of each leaf that the layout spells out; lists of any length and maps spell out nothing."""
    if isinstance(layout, str):
        yield path, layout
        return
    tag = tag_of(layout)
    if tag is None:
        for name, below in (layout or {}).items():
            yield from leaves_of(below, join(path, name))
    elif tag in ("$named", "$state") or (tag == "$option" and layout.get("some") is not False):
        yield from leaves_of(layout[tag], path)
    elif tag == "$enum" and layout.get("is"):
        yield from leaves_of(dict(layout[tag])[layout["is"]], join(path, layout["is"]))
    elif tag in ("$vec", "$tuple") and isinstance(layout[tag], list):
        for index, below in enumerate(layout[tag]):
            yield from leaves_of(below, join(path, index))


def is_optimizer_record(outline: Outline) -> bool:
    """True if a record has the form that those of optimizers have: states by ids, and the paths of those."""
    states, paths = outline.values.get("states"), outline.values.get("paths")
    if not isinstance(states, Mapping) or not isinstance(paths, Mapping):
        return False
    return all(id_of(name) is not None for name in (*outline.entries, *states, *(f"{path}." for path in paths)))


def is_id(text: str) -> bool:
    return _parsed(text) is not None


def full_id(text: str) -> str:
    """An id as it is written now: Burn 0.14 wrote 10 characters, and UUIDs before."""
    return str(ParamId.parse(text))


def id_of(name: str) -> int | None:
    """The id that a name of a part of a state begins with, None for other names."""
    text, dot, _ = name.partition(".")
    param_id = _parsed(text) if dot else None
    return None if param_id is None or str(param_id) != text else param_id.value


def _parsed(text: str) -> ParamId | None:
    try:
        return ParamId.parse(text)
    except ValueError:
        return None
