"""Turns objects into tensors and values of a record and back, by what their types declare.

A dataclass or NamedTuple needs nothing more than its fields. Another type joins by two methods, named as in Burn:
`into_item(self)`, which gives something that can be stored (a dataclass, a map, a tensor, ...), and the classmethod
`from_item(cls, item)`, whose annotation of `item` says what it takes back; without one it gets maps, lists and leaves.

A tensor's name is its path. Values keep the shape of the object: a list of tensors and numbers has None for tensors.
"""

import dataclasses
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ...errors import RecordError
from ...tensor.core.base import TensorBase
from ..layout import join
from ..state_dict.state_tree import is_array, plain_of, tensor_of
from ..values import MAX_DEPTH

if TYPE_CHECKING:
    from ..record import Record

ABSENT: Any = object()  # what a tensor leaves among the values


def to_leaves(source: Any) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and plain values of `source`; tensors are not copied, NumPy arrays are.

    It may be a dataclass, NamedTuple, map or list of tensors, NumPy arrays, numbers, texts, bools, None, enums (kept by
    name) and further such things, or an object with `into_item()`.
    """
    return leaves_and_records(source, lambda item: None)[:2]


def leaves_and_records(
    source: Any, own_record: "Callable[[Any], Record | None]"
) -> "tuple[dict[str, Tensor], dict[str, Any], dict[str, Record]]":
    """As `to_leaves`, where `own_record` may give parts a record of their own; and the records by their places."""
    found = _Leaves(own_record)
    value = found.take(source, "", 0)
    if value is ABSENT:
        value = {}
    elif isinstance(value, list):
        value = {str(index): item for index, item in enumerate(value)}
    return found.tensors, value if isinstance(value, dict) else {"": value}, found.records


def item_tree(source: Any, name: str) -> Any:
    """A field of a module as `to_leaves` takes it, with its tensors in their places: an entry of a state dict."""
    return _Leaves(lambda item: None, in_place=True).take(source, name, 1)


class _Leaves:
    """The tensors of one object by name, which stay `in_place` too, and the records of parts that have their own."""

    def __init__(self, own_record: "Callable[[Any], Record | None]", in_place: bool = False) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.records: dict[str, Record] = {}
        self._own_record = own_record
        self._in_place = in_place

    def take(self, item: Any, path: str, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise RecordError(f"'{path[:80]}' is nested too deeply (more than {MAX_DEPTH} levels), or holds itself")
        if item is None or isinstance(item, Enum):
            return None if item is None else item.name
        if (plain := plain_of(item)) is not None:
            return plain
        item = item.inner if isinstance(item, TensorBase) else item
        if isinstance(item, Tensor) or is_array(item):
            if not path:
                raise RecordError("a tensor alone needs a name: write {'name': tensor}")
            if path in self.tensors:
                raise RecordError(f"two tensors would be named '{path}'")
            self.tensors[path] = item.detach() if isinstance(item, Tensor) else tensor_of(item.copy(), f"'{path}'")
            return self.tensors[path] if self._in_place else ABSENT
        if (record := self._own_record(item) if path else None) is not None:
            self.records[path] = record
            return dict(record.values) if record.values or not record.tensors else ABSENT
        if not isinstance(item, type) and callable(into_item := getattr(item, "into_item", None)):
            return self.take(into_item(), path, depth + 1)
        if (parts := fields_of(item)) is not None:
            return self._take_map(parts, path, depth)
        if isinstance(item, list | tuple):
            values = [self.take(part, join(path, index), depth + 1) for index, part in enumerate(item)]
            if values and all(value is ABSENT for value in values):
                return ABSENT
            return [None if value is ABSENT else value for value in values]
        place = f"'{path}': " if path else ""
        raise RecordError(
            f"{place}expected a tensor, array, number, text, bool, None, enum, list, map, dataclass,"
            " module, optimizer, scheduler, or an object with into_record(), into_item() or state_dict(), got"
            f" {type(item).__name__}"
        )

    def _take_map(self, parts: Mapping[Any, Any], path: str, depth: int) -> Any:
        values = {}
        for key, part in parts.items():
            name = key.name if isinstance(key, Enum) else str(key) if type(key) is int else key
            if not isinstance(name, str) or not name:
                raise RecordError(f"'{path}': expected texts, whole numbers or enums as keys, got {key!r:.60}")
            full = join(path, name)
            value = self.take(part, full, depth + 1)
            has_parts = isinstance(value, dict | list) or (value is ABSENT and full not in self.tensors)
            if "." in name and has_parts:
                raise RecordError(f"'{path}': the key {name!r} of something with parts has a dot; take another")
            if value is not ABSENT:
                values[name] = value
        return ABSENT if parts and not values else values


def fields_of(item: Any) -> dict[Any, Any] | None:
    """Name -> part of a dataclass, NamedTuple or map; None for anything else."""
    if hasattr(type(item), "load_into"):  # a Record, which has more than tensors and values
        return None
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        return {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}
    if isinstance(item, tuple) and hasattr(item, "_fields"):
        return dict(zip(item._fields, item, strict=True))  # pyright: ignore[reportAttributeAccessIssue]
    return dict(item) if isinstance(item, Mapping) else None
