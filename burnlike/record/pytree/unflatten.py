"""Makes an object of a declared type from the tensors and values of a record; see `flatten`."""

import dataclasses
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import reduce
from itertools import count, takewhile
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from torch import Tensor, nn

from ...errors import RecordError, RecordMismatchError, nearest
from ...tensor.core.base import TensorBase
from ..layout import join
from ..nesting import value_at
from ..values import flat, leaves
from .type_layout import custom_item, field_hints, stripped, type_name

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
    found = reader.build(kind, "", getattr(kind, "__name__", str(kind)))
    if strict:
        reader.check_all_used(kind)
    return found


def item_of_tree(kind: type[T], tree: Any, name: str) -> T:
    """The field of type `kind` that `item_tree` made `tree` of."""
    tensors = {path: leaf for path, leaf in leaves(tree, name) if isinstance(leaf, Tensor)}
    reader = LeafReader(tensors, {name: tree})
    found = reader.build(kind, name, kind.__name__)
    reader.check_all_used(kind)
    return found


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
        found = self._tensors[path]
        if issubclass(kind, TensorBase):
            return kind(found) if self._typed else found
        if not issubclass(kind, Tensor):
            return found.detach().cpu().numpy()
        return nn.Parameter(found, requires_grad=found.is_floating_point()) if kind is nn.Parameter else found

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
        known = [name for name in (*self._tensors, *self._values) if name not in self._used]
        known = known if len(known) < 1000 else []  # comparing with more takes long
        return RecordMismatchError(f"'{path}' of {owner} is missing in the record ({what}){nearest(path, known)}")

    def _below(self, path: str) -> list[str]:
        return list(reduce(lambda tree, name: tree.get(name, {}), path.split(".") if path else (), self._tree))


def _made(kind: type, parts: dict[str, Any]) -> Any:
    unset = (
        [field.name for field in dataclasses.fields(kind) if not field.init] if dataclasses.is_dataclass(kind) else []
    )
    found = kind(**{name: part for name, part in parts.items() if name not in unset})
    for name in unset:
        object.__setattr__(found, name, parts[name])
    return found


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
