"""The layout of what a type declares: how Burn's formats nest a record that was derived from it."""

import types
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Union, get_args, get_origin

from torch import Tensor

from ...tensor.base import TensorBase
from ..layout import Layout
from .deriving import custom_item, field_hints, stripped

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
        return _all({name: layout_of_type(below) for name, below in hints.items()})
    if issubclass(origin, Mapping) or origin is Mapping:
        return _tagged("$map", args[1:2])
    if origin is tuple and args[-1:] != (...,):
        below = [layout_of_type(arg) for arg in args]
        return None if None in below else {"$tuple": below}
    return _tagged("$vec", args[:1]) if origin in (list, tuple, Sequence) else None


def _tagged(tag: str, items: tuple[Any, ...]) -> Layout | None:
    below = layout_of_type(items[0]) if items else None
    return None if below is None else {tag: below}


def _all(layouts: dict[str, Layout | None]) -> Layout | None:
    return None if None in layouts.values() else layouts
