"""Turns objects into tensors and values of a record and back, by what their types declare; and the layout of a type.

A dataclass or NamedTuple needs nothing more than its fields. Another type joins by two methods, named as in Burn:
`into_item(self)`, which gives something that can be stored (a dataclass, a map, a tensor, ...), and the classmethod
`from_item(cls, item)`, whose annotation of `item` says what it takes back; without one it gets maps, lists and leaves.

A tensor's name is its path. Values keep the shape of the object: a list of tensors and numbers has None for tensors.
The layout of a type is how Burn's formats nest the record of an object.
"""

import dataclasses
import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache, reduce
from itertools import count, takewhile
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from torch import Tensor, nn

from ..errors import RecordError, RecordMismatchError, nearest
from ..tensor.core.base import TensorBase
from .layout import Layout, join
from .metadata import MAX_DEPTH, flat, leaves
from .nesting import value_at
from .state_dict.module_state import is_array, plain_of, tensor_of

if TYPE_CHECKING:
    from .record import Record

ABSENT: Any = object()  # what a tensor leaves among the values


def to_leaves(source: Any, *, keeps_none: bool = True) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and plain values of `source`; tensors are not copied, NumPy arrays are.

    It may be a dataclass, NamedTuple, map or list of tensors, NumPy arrays, numbers, texts, bools, None, enums (kept by
    name) and further such things, or an object with `into_item()`. Without `keeps_none`, fields that are None have no
    value, unless their type doesn't say that they may be.
    """
    return leaves_and_records(source, lambda item: None, keeps_none=keeps_none)[:2]


def leaves_and_records(
    source: Any, own_record: "Callable[[Any], Record | None]", *, keeps_none: bool = True
) -> "tuple[dict[str, Tensor], dict[str, Any], dict[str, Record]]":
    """The same as `to_leaves`, where `own_record` may give parts records of their own; and these by their places."""
    leaves = _Leaves(own_record, keeps_none=keeps_none)
    value = leaves.take(source, "", 0)
    if value is ABSENT:
        value = {}
    elif isinstance(value, list):
        value = {str(index): item for index, item in enumerate(value)}
    return leaves.tensors, value if isinstance(value, dict) else {"": value}, leaves.records


def item_tree(source: Any, name: str) -> Any:
    """A field of a module as `to_leaves` takes it, with its tensors in their places: an entry of a state dict."""
    return _Leaves(lambda item: None, in_place=True).take(source, name, 1)


class _Leaves:
    """The tensors of one object by name, which stay `in_place` too, and the records of parts that have their own."""

    def __init__(
        self, own_record: "Callable[[Any], Record | None]", in_place: bool = False, keeps_none: bool = True
    ) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.records: dict[str, Record] = {}
        self._own_record = own_record
        self._in_place, self._keeps_none = in_place, keeps_none

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
            if self._keeps_none or isinstance(item, Mapping) or not any(part is None for part in parts.values()):
                return self._take_map(parts, path, depth)
            hints = field_hints(type(item)) or {}
            optional = [name for name, part in parts.items() if part is None and hints[name] not in (Any, object)]
            return self._take_map(parts, path, depth, optional)
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

    def _take_map(self, parts: Mapping[Any, Any], path: str, depth: int, left_out: Sequence[str] = ()) -> Any:
        values = {}
        for key, part in parts.items():
            if key in left_out:
                continue
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


@lru_cache(maxsize=256)  # reading the hints of a type takes most of saving an optimizer's small state
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
    """True if the layout of its type says all of `item`: no field that is NOT_IN_LAYOUT, also below, has a value."""
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


T = TypeVar("T")

_PLAIN = (bool, int, float, str)


def from_leaves(
    kind: type[T], tensors: Mapping[str, Tensor], values: Mapping[str, Any], strict: bool = True, typed: bool = True
) -> T:
    """The object of type `kind`, a dataclass, a NamedTuple or with `from_item`, whose leaves `to_leaves` gave.

    Optional fields that are not there become None; numbers and texts must be of the declared type (a whole number is
    taken for a float). Each tensor that is needed is read once. The values may also be flat, by dotted names.

    Args:
        strict: whether leaves that `kind` has no place for are an error.
        typed: whether a tensor that is declared as a typed one is; else it is a torch tensor.
    """
    reader = LeafReader(tensors, values, typed)
    tree = reader.build(kind, "", getattr(kind, "__name__", str(kind)))
    if strict:
        reader.check_all_used(kind)
    return tree


def item_of_tree(kind: type[T], tree: Any, name: str) -> T:
    """The field of type `kind` that `item_tree` made `tree` of."""
    tensors = {path: leaf for path, leaf in leaves(tree, name) if isinstance(leaf, Tensor)}
    reader = LeafReader(tensors, {name: tree})
    value = reader.build(kind, name, kind.__name__)
    reader.check_all_used(kind)
    return value


class LeafReader:
    """Builds objects of the leaves of one record, and notes which it used."""

    def __init__(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any], typed: bool = True) -> None:
        self._tensors = tensors
        self._typed = typed
        self._nested = values
        self._values = {name: value for name, value in flat(values).items() if name not in tensors}
        self._used: set[str] = set()
        self._tree: dict[str, Any] = {}
        for name in (*tensors, *self._values):
            reduce(lambda tree, part: tree.setdefault(part, {}), name.split("."), self._tree)

    def check_all_used(self, kind: type) -> None:
        there = (*self._tensors, *(name for name, value in self._values.items() if value not in (None, {}, [])))
        if left := [f"'{name}'" for name in there if name not in self._used]:
            names, more = ", ".join(left[:5]), f" and {len(left) - 5} more" if len(left) > 5 else ""
            raise RecordMismatchError(
                f"{names}{more} in the record, for which {type_name(kind)} has no place; add fields, or leave them out"
            )

    def build(self, hint: Any, path: str, owner: str) -> Any:
        """An object of the type `hint` from the leaves at and below `path`; `owner` is the type that declares it."""
        hint = stripped(hint)
        origin = get_origin(hint) or hint
        if origin in (Union, types.UnionType):
            return self._one_of(get_args(hint), path, owner)
        if hint in (Any, object):
            return self._anything(path, owner)
        if origin is Literal:
            return self._checked(lambda value: value in get_args(hint), hint, path, owner)
        if not isinstance(origin, type):
            raise _no_type(hint, path, owner)
        if callable(getattr(origin, "from_item", None)):
            return self._custom(origin, path, owner)
        if issubclass(origin, Enum):
            return origin[self._checked(lambda value: value in origin.__members__, origin, path, owner)]
        if issubclass(origin, _PLAIN) and origin in _PLAIN:
            kinds = (int, float) if origin is float else (origin,)
            return origin(self._checked(lambda value: type(value) in kinds, origin, path, owner))
        if origin is types.NoneType:
            return self._checked(lambda value: value is None, hint, path, owner)
        if issubclass(origin, Tensor | TensorBase) or (origin.__module__, origin.__name__) == ("numpy", "ndarray"):
            return self._tensor(origin, path, owner)
        if (names := field_hints(origin)) is None:
            return self._collection(hint, origin, path, owner)
        return _made(origin, {name: self.build(it, join(path, name), type_name(origin)) for name, it in names.items()})

    def _collection(self, hint: Any, origin: type, path: str, owner: str) -> Any:
        if issubclass(origin, Mapping) or origin is Mapping:
            keys, items = get_args(hint) or (str, Any)
            return {_key(keys, name, path): self.build(items, at, owner) for name, at in self._keys(items, path, owner)}
        if origin is tuple:
            args = get_args(hint) or (Any, ...)
            if args[-1] is ... or not args:
                return tuple(self._items(args[0] if args else Any, path, owner))
            return tuple(self.build(item, join(path, index), owner) for index, item in enumerate(args))
        if origin is list or origin is Sequence:
            return list(self._items((get_args(hint) or (Any,))[0], path, owner))
        raise _no_type(hint, path, owner)

    def _items(self, hint: Any, path: str, owner: str) -> Iterator[Any]:
        if not (below := self._below(path)):
            self._checked(lambda value: value in ([], {}), list, path, owner)
        for index in takewhile(lambda index: str(index) in below, count()):
            yield self.build(hint, join(path, index), owner)

    def _keys(self, items: Any, path: str, owner: str) -> list[tuple[str, str]]:
        """The keys of a map and where their items are; items without parts may have dots in their keys."""
        if not (below := self._below(path)):
            self._checked(lambda value: value == {}, dict, path, owner)
            return []
        kind = get_origin(stripped(items)) or stripped(items)
        if kind in _PLAIN or (isinstance(kind, type) and issubclass(kind, Tensor | TensorBase)):
            prefix = f"{path}." if path else ""
            there = [name for name in (*self._tensors, *self._values) if name.startswith(prefix)]
            return [(name[len(prefix) :], name) for name in there]
        return [(name, join(path, name)) for name in below]

    def _one_of(self, kinds: Sequence[Any], path: str, owner: str) -> Any:
        there = bool(self._below(path)) or path in self._tensors or self._values.get(path) is not None
        if types.NoneType in kinds and not there:
            self._used.add(path)
            return None
        rest = [kind for kind in kinds if kind is not types.NoneType]
        rest.sort(key=lambda kind: type(self._values.get(path)) is not kind)  # 3 is an int before it is a float
        # A type that does not fit has marked what it took; names are to be found unused by the next one.
        used = set(self._used)
        for kind in rest[:-1]:
            try:
                return self.build(kind, path, owner)
            except RecordMismatchError:
                self._used = set(used)
        return self.build(rest[-1], path, owner)

    def _anything(self, path: str, owner: str) -> Any:
        below = self._below(path)
        if path in self._tensors:
            return self._tensor(Tensor, path, owner)
        if not below:
            return self._checked(lambda value: True, Any, path, owner)
        numbers = [str(index) for index in range(len(below))]
        if set(below) == set(numbers) and not isinstance(value_at(self._nested, path)[1], Mapping):
            return [self._anything(join(path, name), owner) for name in numbers]
        return {name: self._anything(join(path, name), owner) for name in below}

    def _custom(self, kind: Any, path: str, owner: str) -> Any:
        item = self.build(custom_item(kind), path, owner)
        try:
            return kind.from_item(item)
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            what = f"{type_name(kind)}.from_item refused it: {type(error).__name__}: {error}"
            raise RecordMismatchError(f"'{path}': {what}" if path else what) from error

    def _tensor(self, kind: type, path: str, owner: str) -> Any:
        if path not in self._tensors:
            raise self._missing(path, type_name(kind), owner)
        self._used.add(path)
        tensor = self._tensors[path]
        if issubclass(kind, TensorBase):
            return kind(tensor) if self._typed else tensor
        if not issubclass(kind, Tensor):
            return tensor.detach().cpu().numpy()
        return nn.Parameter(tensor, requires_grad=tensor.is_floating_point()) if kind is nn.Parameter else tensor

    def _checked(self, fits: Callable[[Any], bool], hint: Any, path: str, owner: str) -> Any:
        if path not in self._values:
            raise self._missing(path, type_name(hint), owner)
        value = self._values[path]
        if not fits(value):
            raise RecordMismatchError(f"'{path}' of {owner}: expected {type_name(hint)}, got {value!r:.60}")
        self._used.add(path)
        return value

    def _missing(self, path: str, what: str, owner: str) -> RecordMismatchError:
        if path in self._tensors:
            return RecordMismatchError(f"'{path}' of {owner}: expected {what}, got a tensor")
        unused = [name for name in (*self._tensors, *self._values) if name not in self._used]
        unused = unused if len(unused) < 1000 else []  # comparing with more takes long
        return RecordMismatchError(f"'{path}' of {owner} is missing in the record ({what}){nearest(path, unused)}")

    def _below(self, path: str) -> list[str]:
        return list(reduce(lambda tree, name: tree.get(name, {}), path.split(".") if path else (), self._tree))


def _made(kind: type, parts: dict[str, Any]) -> Any:
    unset = (
        [field.name for field in dataclasses.fields(kind) if not field.init] if dataclasses.is_dataclass(kind) else []
    )
    built = kind(**{name: part for name, part in parts.items() if name not in unset})
    for name in unset:
        object.__setattr__(built, name, parts[name])
    return built


def _key(kind: Any, name: str, path: str) -> Any:
    try:
        if isinstance(kind, type) and issubclass(kind, Enum):
            return kind[name]
        return int(name) if kind is int else name
    except (KeyError, ValueError) as error:
        raise RecordMismatchError(f"'{path}': expected a key that is a {type_name(kind)}, got {name!r}") from error


def _no_type(hint: Any, path: str, owner: str) -> RecordError:
    return RecordError(
        f"'{path}' of {owner} is declared as {type_name(hint)}, which can't be read from a record; declare a tensor, a "
        "plain value, an enum, a list, tuple, dict or dataclass of those, or give the type from_item(cls, item)"
    )
