"""The content of a burnpack file, under its names there. Imports no torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..outline import TensorEntry


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
    found: dict[str, Any] = {}
    for name, value in leaves.items():
        *above, last = name.split(".")
        tree = found
        for part in above:
            tree = tree.setdefault(part, {})
            if not isinstance(tree, dict):
                raise ValueError(name)
        if last in tree:
            raise ValueError(name)
        tree[last] = value
    return found


def has_tag(name: str) -> bool:
    """Whether a part of the name would be taken for one of the words that layouts have."""
    return name.startswith("$") or ".$" in name
