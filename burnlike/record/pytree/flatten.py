"""Turns objects into tensors and values of a record and back, by what their types declare.

A dataclass or NamedTuple needs nothing more than its fields. Another type joins by two methods, named as in Burn:
`into_item(self)`, which gives something that can be stored (a dataclass, a map, a tensor, ...), and the classmethod
`from_item(cls, item)`, whose annotation of `item` says what it takes back; without one it gets maps, lists and leaves.

A tensor's name is its path of fields, keys and indices. Values keep the shape of the object: a list that holds tensors
and numbers has None where the tensors are.
"""

import dataclasses
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeVar

from torch import Tensor

from ...errors import RecordError
from ...tensor.core.base import TensorBase
from ..layout import join
from ..record import Record
from ..state_dict.state_tree import is_array, tensor_of
from ..values import MAX_DEPTH

T = TypeVar("T")

_ABSENT: Any = object()  # what a tensor leaves among the values


def to_leaves(source: Any) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and plain values of `source`; tensors are not copied, NumPy arrays are.

    Args:
        source: a dataclass, NamedTuple, map or list of tensors, NumPy arrays, numbers, texts, bools, None, enums
            (kept by name) and further such things, or an object with `into_item()`.

    Raises:
        RecordError: something in it is none of these, or two leaves would get one name.
    """
    tensors: dict[str, Tensor] = {}
    return tensors, _Leaves(tensors).of(source)


def leaves_and_records(
    source: Any, own_record: Callable[[Any], Record | None]
) -> tuple[dict[str, Tensor], dict[str, Any], dict[str, Record]]:
    """As `to_leaves`, of what may have parts with records of their own, too.

    Args:
        source: a dataclass, a map, ...
        own_record: gives the record of a part that has one; None of other things.

    Returns:
        The tensors and the values, those of the records among the latter; and the records by their places.

    Raises:
        RecordError: something in it can't be stored, or two leaves would get one name.
    """
    tensors: dict[str, Tensor] = {}
    found = _Leaves(tensors, own_record)
    return tensors, found.of(source), found.records


def from_leaves(
    kind: type[T], tensors: Mapping[str, Tensor], values: Mapping[str, Any], strict: bool = True, typed: bool = True
) -> T:
    """The object of type `kind` whose tensors and values `to_leaves` gave.

    Optional fields that are not there become None; numbers and texts must be of the declared type (a whole number is
    taken for a float).

    Args:
        kind: a dataclass, a NamedTuple, or a type with `from_item`.
        tensors: by name; each that is needed is read once.
        values: as `to_leaves` gives them, or flat by dotted names.
        strict: whether leaves that `kind` has no place for are an error.
        typed: whether a tensor that is declared as a typed one is; else it is a torch tensor.

    Raises:
        RecordMismatchError: a field is missing, has something that does not fit it, or there is more than `kind` has.
        RecordError: `kind` declares a type that can't be derived.
    """
    from .unflatten import LeafReader

    reader = LeafReader(tensors, values, typed)
    found = reader.build(kind, "", getattr(kind, "__name__", str(kind)))
    if strict:
        reader.check_all_used(kind)
    return found


def item_tree(source: Any, name: str) -> Any:
    """A field of a module as `to_leaves` takes it, with its tensors in their places: an entry of a state dict."""
    tensors: dict[str, Tensor] = {}
    values = _Leaves(tensors).of({name: source})
    for path, tensor in tensors.items():
        tree: Any = values
        *above, last = path.split(".")
        for part in above:
            tree = tree[int(part)] if isinstance(tree, list) else tree.setdefault(part, {})
        tree[int(last) if isinstance(tree, list) else last] = tensor
    return values.get(name, {})


def item_of_tree(kind: type[T], tree: Any, name: str) -> T:
    """The field of type `kind` that `item_tree` made `tree` of.

    Raises:
        RecordMismatchError: something is missing in it, or does not fit.
    """
    from .unflatten import LeafReader

    tensors: dict[str, Tensor] = {}
    values = _without_tensors(tree, name, tensors)
    reader = LeafReader(tensors, {} if values is _ABSENT else {name: values})
    found = reader.build(kind, name, kind.__name__)
    reader.check_all_used(kind)
    return found


def _without_tensors(tree: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    """The values of a tree, as `to_leaves` gives them."""
    if isinstance(tree, Tensor):
        tensors[path] = tree
        return _ABSENT
    if isinstance(tree, Mapping):
        parts = {key: _without_tensors(it, join(path, key), tensors) for key, it in tree.items()}
        left = {key: it for key, it in parts.items() if it is not _ABSENT}
        return _ABSENT if parts and not left else left
    if isinstance(tree, list | tuple):
        items = [_without_tensors(it, join(path, index), tensors) for index, it in enumerate(tree)]
        return [None if it is _ABSENT else it for it in items]
    return tree


class _Leaves:
    """The tensors and values of one object.

    Attributes:
        tensors: by name.
        records: by name, those of parts that have a record of their own.
    """

    def __init__(
        self, tensors: dict[str, Tensor], own_record: Callable[[Any], Record | None] = lambda item: None
    ) -> None:
        self.tensors = tensors
        self.records: dict[str, Record] = {}
        self._own_record = own_record

    def of(self, source: Any) -> dict[str, Any]:
        """The values."""
        value = self._take(source, "", 0)
        if value is _ABSENT:
            return {}
        if isinstance(value, list):
            return {str(index): item for index, item in enumerate(value)}
        return value if isinstance(value, dict) else {"": value}

    def _take(self, item: Any, path: str, depth: int) -> Any:
        """The value of a part."""
        if depth > MAX_DEPTH:
            raise RecordError(f"'{path[:80]}' is nested too deeply (more than {MAX_DEPTH} levels), or holds itself")
        plain = _plain(item)
        if plain is not _ABSENT:
            return plain
        item = item.inner if isinstance(item, TensorBase) else item
        if isinstance(item, Tensor) or is_array(item):
            if not path or path in self.tensors:
                raise RecordError(
                    f"two tensors would be named '{path}'"
                    if path
                    else "a tensor alone needs a name: write {'name': tensor}"
                )
            self.tensors[path] = item.detach() if isinstance(item, Tensor) else tensor_of(item.copy(), f"'{path}'")
            return _ABSENT
        record = self._own_record(item) if path else None
        if record is not None:
            self.records[path] = record
            return dict(record.values) if record.values or not record.tensors else _ABSENT
        if not isinstance(item, type) and callable(into_item := getattr(item, "into_item", None)):
            return self._take(into_item(), path, depth + 1)
        parts = fields_of(item)
        if parts is not None:
            return self._take_map(parts, path, depth)
        if isinstance(item, list | tuple):
            values = [self._take(part, join(path, index), depth + 1) for index, part in enumerate(item)]
            if values and all(value is _ABSENT for value in values):
                return _ABSENT
            return [None if value is _ABSENT else value for value in values]
        raise _no_part(item, path)

    def _take_map(self, parts: Mapping[Any, Any], path: str, depth: int) -> Any:
        values = {}
        for key, part in parts.items():
            name = key.name if isinstance(key, Enum) else str(key) if type(key) is int else key
            if not isinstance(name, str) or not name:
                raise RecordError(f"'{path}': expected texts, whole numbers or enums as keys, got {key!r:.60}")
            full = join(path, name)
            value = self._take(part, full, depth + 1)
            has_parts = isinstance(value, dict | list) or (value is _ABSENT and full not in self.tensors)
            if "." in name and has_parts:
                raise RecordError(f"'{path}': the key {name!r} of something with parts has a dot; take another")
            if value is not _ABSENT:
                values[name] = value
        return _ABSENT if parts and not values else values


def _no_part(item: Any, path: str) -> RecordError:
    place = f"'{path}': " if path else ""
    return RecordError(
        f"{place}expected a tensor, array, number, text, bool, None, enum, list, map, dataclass, module, optimizer,"
        f" scheduler, or an object with into_record(), into_item() or state_dict(), got {type(item).__name__}"
    )


def _plain(item: Any) -> Any:
    if isinstance(item, Enum):
        return item.name
    if item is None or isinstance(item, bool):
        return item
    for kind in (int, float, str):
        if isinstance(item, kind):
            return kind(item)
    numpy = sys.modules.get("numpy")
    return item.item() if numpy is not None and isinstance(item, numpy.number | numpy.bool) else _ABSENT


def fields_of(item: Any) -> dict[Any, Any] | None:
    """Name -> part of a dataclass, NamedTuple or map; None for anything else."""
    if isinstance(item, Record):
        return None  # it has more than tensors and values
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        return {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}
    if isinstance(item, tuple) and hasattr(item, "_fields"):
        return dict(zip(item._fields, item, strict=True))  # pyright: ignore[reportAttributeAccessIssue]
    return dict(item) if isinstance(item, Mapping) else None
