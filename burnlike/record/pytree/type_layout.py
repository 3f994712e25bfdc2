"""Declared types: their fields, and their layout, which is how Burn's formats nest the record of an object."""

import dataclasses
import inspect
import types
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from torch import Tensor

from ...errors import RecordError
from ...tensor.core.base import TensorBase
from ..layout import Layout

# Metadata of a dataclass field that Burn's form of the type doesn't have; what fills it has no layout.
NOT_IN_LAYOUT: Mapping[str, bool] = {"not_in_layout": True}
_SCALARS: Mapping[type, str] = {bool: "bool", int: "usize", float: "f64", str: "str"}


def layout_of_type(kind: Any) -> Layout | None:
    """The layout of a type: fields in order, what may be None as options; None if the types don't say it (Any, `|`)."""
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
    if (hints := field_hints(origin)) is not None:
        extra = _extra_fields(origin)
        layouts = {name: layout_of_type(below) for name, below in hints.items() if name not in extra}
        return None if None in layouts.values() else layouts
    if origin is tuple and args[-1:] != (...,):
        below = [layout_of_type(arg) for arg in args]
        return None if None in below else {"$tuple": below}
    tag = "$map" if issubclass(origin, Mapping) else "$vec" if origin in (list, tuple, Sequence) else ""
    items = args[1:2] if tag == "$map" else args[:1]
    below = layout_of_type(items[0]) if tag and items else None
    return None if below is None else {tag: below}


def field_hints(kind: type) -> dict[str, Any] | None:
    """Name -> declared type of the fields of a dataclass or NamedTuple; None for another type."""
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
    elif issubclass(kind, tuple) and hasattr(kind, "_fields"):
        names = list(kind._fields)  # pyright: ignore[reportAttributeAccessIssue]
    else:
        return None
    try:
        hints = get_type_hints(kind)
    except NameError as error:
        raise RecordError(f"the types of the fields of {type_name(kind)} can't be told: {error}") from error
    return {name: hints.get(name, Any) for name in names}


def custom_item(kind: Any) -> Any:
    """The type that `kind.from_item` takes, by its annotation; Any without one."""
    names = [*inspect.signature(kind.from_item).parameters]
    return get_type_hints(kind.from_item).get(names[0], Any) if names else Any


def stripped(hint: Any) -> Any:
    """The type behind Annotated, NewType and type variables."""
    while True:
        if get_origin(hint) is Annotated:
            hint = get_args(hint)[0]
        elif hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        elif isinstance(hint, TypeVar):
            hint = hint.__bound__ or Any
        else:
            return hint


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
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    return [field.name for field in fields if field.metadata.get("not_in_layout")]


def type_name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).removeprefix("typing.")
