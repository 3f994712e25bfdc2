"""The layout of a declared type: how Burn's formats nest a record that was derived from it."""

import dataclasses
import types
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Union, get_args, get_origin

from torch import Tensor

from ...tensor.core.base import TensorBase
from ..layout import Layout
from .unflatten import custom_item, field_hints, stripped

NOT_IN_LAYOUT: Mapping[str, bool] = {"not_in_layout": True}
"""Metadata of a dataclass field that Burn's form of the type doesn't have; what fills it has no layout."""

_SCALARS: Mapping[type, str] = {bool: "bool", int: "usize", float: "f64", str: "str"}


def layout_of_type(kind: Any) -> Layout | None:
    """The layout of a type as `derive` takes it: fields in the order of declaration, what may be None as options.

    Returns:
        None where the declared types don't say it (Any, unions).

    Raises:
        RecordError: an annotation names something that is not there.
    """
    hint = stripped(kind)
    origin, args = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, types.UnionType):
        rest = [arg for arg in args if arg is not types.NoneType]
        below = layout_of_type(rest[0]) if len(rest) == 1 else None
        return None if below is None else {"$option": below}
    if not isinstance(origin, type):
        return None
    if hasattr(origin, "from_item"):
        return layout_of_type(custom_item(origin))
    if issubclass(origin, Tensor | TensorBase) or origin.__module__ == "numpy":
        return "tensor"
    if issubclass(origin, Enum):
        return "str"
    if origin in _SCALARS:
        return _SCALARS[origin]
    hints = field_hints(origin)
    if hints is not None:
        extra = _extra_fields(origin)
        return _all({name: layout_of_type(below) for name, below in hints.items() if name not in extra})
    if issubclass(origin, Mapping) or origin is Mapping:
        return _tagged("$map", args[1:2])
    if origin is tuple and args[-1:] != (...,):
        below = [layout_of_type(arg) for arg in args]
        return None if None in below else {"$tuple": below}
    return _tagged("$vec", args[:1]) if origin in (list, tuple, Sequence) else None


def fits_layout(item: Any) -> bool:
    """Whether the layout of its type says all of `item`: no field that is NOT_IN_LAYOUT, also below, has a value."""
    if dataclasses.is_dataclass(item):
        if any(getattr(item, name) is not None for name in _extra_fields(type(item))):
            return False
        return all(fits_layout(getattr(item, field.name)) for field in dataclasses.fields(item))
    if isinstance(item, Mapping):
        return all(map(fits_layout, item.values()))
    return not isinstance(item, list | tuple) or all(map(fits_layout, item))


def _extra_fields(kind: Any) -> list[str]:
    if not dataclasses.is_dataclass(kind):
        return []
    return [field.name for field in dataclasses.fields(kind) if field.metadata.get("not_in_layout")]


def _tagged(tag: str, items: tuple[Any, ...]) -> Layout | None:
    below = layout_of_type(items[0]) if items else None
    return None if below is None else {tag: below}


def _all(layouts: dict[str, Layout | None]) -> Layout | None:
    return None if None in layouts.values() else layouts
