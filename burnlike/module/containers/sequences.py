"""Lists and tuples of modules, as modules.

A `burnlike.Module` wraps what is assigned to it: a list that holds a module or parameter becomes a `ModuleVec`, a tuple
a `ModuleTuple`. They are `nn.Module`s, so every torch tool sees what they hold.
"""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any, Self, overload

from torch import Tensor, nn

from ...errors import ModuleTreeError
from ..attributes.plain_attributes import MarkedConstant
from ..identity.field_metadata import KEPT, held_as
from ..module import Module
from ..torch_objects.wrappers import own_class
from ..tree.param import Param


class Container(Module):
    """The base of containers: items in attributes."""

    def _entry(self, name: str) -> Any:
        """The item as it can be assigned elsewhere: a tensor with its id, a reference as one, a container attached."""
        value = getattr(self, name)
        if held_as(self, name) == "constant":
            return MarkedConstant(value)
        if (module := self._modules.get(name)) is not None:
            return module
        if self._parameters.get(name) is not None:
            return Param.of(self, name, "weight")
        if self._buffers.get(name) is not None:
            if name in self._non_persistent_buffers_set:
                return nn.Buffer(value, persistent=False)
            return Param.of(self, name, "state")
        return value

    def _shown(self, name: str) -> Any:
        """The item for another container beside this one: as `_entry`, but a user's container itself."""
        return self.__dict__[name] if name in self._modules and name in self.__dict__ else self._entry(name)

    def _names(self) -> list[str]:
        raise NotImplementedError


class ModuleTuple(Container, Sequence[Any]):
    """A fixed sequence of modules, parameters, None and constants; a tuple assigned to a Module becomes one."""

    _burnlike_container = "Tuple"
    _count: int

    def __init__(self, items: Iterable[Any] = ()) -> None:
        super().__init__()
        self.__dict__["_count"] = 0
        self._fill(_entries_of(items))

    def _fill(self, items: list[Any], first: int | None = None) -> None:
        """Add `items` at the end; `first` is the place of the first one, for errors, where they are to go elsewhere."""
        self._check(items, len(self) if first is None else first)
        for item in items:
            setattr(self, str(self._count), item)
            self.__dict__["_count"] += 1

    def _check(self, items: list[Any], first: int) -> None:
        """Refuse what can't be elements, the first of them at the place `first`."""

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        return iter([getattr(self, str(index)) for index in range(self._count)])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)([self._shown(name) for name in self._names()[index]])
        return getattr(self, self._name_at(index))

    def __add__(self, other: Iterable[Any]) -> Self:
        """The items of both, in a sequence of its own; as a list or tuple in place of this one would give."""
        if not isinstance(other, _SEQUENCES):
            return NotImplemented
        return type(self)([*_entries_of(self), *_entries_of(other)])

    def __radd__(self, other: Iterable[Any]) -> Self:
        if not isinstance(other, _SEQUENCES):
            return NotImplemented
        return type(self)([*_entries_of(other), *_entries_of(self)])

    def _names(self) -> list[str]:
        return [str(index) for index in range(self._count)]

    def _name_at(self, index: int) -> str:
        try:
            return str(range(self._count)[index])
        except (IndexError, TypeError) as error:
            raise type(error)(f"{type(self).__name__} of {self._count} items has no item {index!r}") from None


def _entries_of(items: Iterable[Any]) -> list[Any]:
    """The items to assign; those of a container of ours with their ids."""
    return [items._shown(name) for name in items._names()] if isinstance(items, ModuleTuple) else list(items)


class ModuleArray(ModuleTuple):
    """A fixed sequence of modules of one class (Burn's array).

    Raises:
        ModuleTreeError: the items are of several classes.
    """

    _burnlike_container = "Array"

    def _check(self, items: list[Any], first: int) -> None:
        kinds = {own_class(item) if isinstance(item, nn.Module) else type(item): None for item in items}
        if len(kinds) > 1:
            names = (f"{kind.__module__}.{kind.__name__}".removeprefix("builtins.") for kind in kinds)
            raise ModuleTreeError(
                f"expected items of one class in a ModuleArray, got {', '.join(names)}; a list or tuple holds any"
            )


class ModuleVec(ModuleTuple, MutableSequence[Any]):
    """A list of modules, parameters, None and constants; a list assigned to a Module becomes one.

    An empty list stays a list, as torch and Python users expect it; begin with `ModuleVec()` to append later.

    Ids, labels and intents go along when items are inserted, removed or reversed. Assigning to an index replaces what
    is in that place: a parameter there keeps the id of the place.
    """

    _burnlike_container = "Vec"

    @overload
    def __setitem__(self, index: int, value: Any) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Iterable[Any]) -> None: ...
    def __setitem__(self, index: int | slice, value: Any) -> None:
        if isinstance(index, slice):
            self._splice(index, _entries_of(value))
        else:
            setattr(self, self._name_at(index), value)

    def __delitem__(self, index: int | slice) -> None:
        places = list(range(self._count))
        del places[index]
        self._arrange(places)

    def insert(self, index: int, value: Any) -> None:
        self._splice(slice(index, index), [value])

    def append(self, value: Any) -> None:
        self._fill([value])

    def extend(self, values: Iterable[Any]) -> None:
        """Put `values` at the end; all of them, or none if one is refused."""
        self._splice(slice(self._count, self._count), _entries_of(values))

    def reverse(self) -> None:
        self._arrange(list(range(self._count))[::-1])

    def clear(self) -> None:
        self._arrange([])

    def _splice(self, where: slice, values: list[Any]) -> None:
        """Put `values` in place of the items at `where`: all of them, or none if one is refused."""
        count = self._count
        places = list(range(count))
        taken = set(places) - set(places[where])
        fresh: list[Any] = []
        put: list[int] = []
        for value, place in zip(values, self._places_of(values), strict=True):
            if place is None or place in taken:  # what is to be at two places is assigned once more: a tie
                put.append(count + len(fresh))
                fresh.append(value if place is None else self._entry(str(place)))
            else:
                put.append(place)
                taken.add(place)
        places[where] = put
        try:
            self._fill(fresh, where.indices(count)[0])
        except Exception:  # a value was refused: what was put before is taken out again
            self._arrange(list(range(count)))
            raise
        self._arrange(places)

    def _places_of(self, values: list[Any]) -> list[int | None]:
        """The place where each tensor of `values` is already; it keeps the id, label and trainability."""
        if not any(isinstance(value, Tensor) for value in values):
            return [None] * len(values)
        place_of = {
            id(tensor): int(name)
            for group in (self._parameters, self._buffers)
            for name, tensor in group.items()
            if tensor is not None and name not in self._non_persistent_buffers_set and name.isdecimal()
        }
        return [place_of.get(id(value)) for value in values]

    def _arrange(self, places: list[int]) -> None:
        """Make the items those that are at `places` now, in this order; they are renamed, not assigned again."""
        parts, names = self.__dict__, self._names()
        first = next((new for new, old in enumerate(places) if new != old), len(places))
        # Items before the first that moves are left alone: appending to a long list then renames nothing.
        renamed = {names[old]: str(new) for new, old in enumerate(places[first:], first)}
        for group in (parts, *(parts[key] for key in _GROUPS if parts.get(key))):
            items = {name: group.pop(name) for name in names[first:] if name in group}
            if items:
                group.update({new: items[old] for old, new in renamed.items() if old in items})
        if unsaved := parts["_non_persistent_buffers_set"].intersection(names[first:]):
            parts["_non_persistent_buffers_set"] -= unsaved
            parts["_non_persistent_buffers_set"] |= {new for old, new in renamed.items() if old in unsaved}
        parts["_count"] = len(places)


_SEQUENCES = (list, tuple, ModuleTuple, nn.ModuleList)
_GROUPS = ("_parameters", "_buffers", "_modules", KEPT)


class ModuleDict(Container, MutableMapping[str, Any]):
    """Modules, parameters, None and constants by name; a dict assigned to a Module becomes one.

    Raises:
        ModuleTreeError: a name is not a text, or can't be a part of a path.
    """

    _burnlike_container = "Dict"
    _keys: dict[str, None]

    def __init__(self, items: Mapping[str, Any] | None = None, *, where: str = "ModuleDict") -> None:
        super().__init__()
        self.__dict__["_keys"] = {}
        for name in items or {}:
            self._check(name, where)
        for name, item in (items or {}).items():
            self[name] = items._shown(name) if isinstance(items, ModuleDict) else item

    def _names(self) -> list[str]:
        return [*self._keys]

    def _check(self, name: object, where: str) -> None:
        if name not in self.__dict__["_keys"]:
            check_name(self, name, where)

    def __getitem__(self, name: str) -> Any:
        if name not in self._keys:
            raise KeyError(name)
        return getattr(self, name)

    def __setitem__(self, name: str, item: Any) -> None:
        self._check(name, "ModuleDict")
        setattr(self, name, item)
        self.__dict__["_keys"] = {**self._keys, name: None}  # copies of the tree refer to the dict that was

    def __delitem__(self, name: str) -> None:
        if name not in self._keys:
            raise KeyError(name)
        delattr(self, name)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        self.__dict__["_keys"] = {key: None for key in self._keys if key != name}

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, name: object) -> bool:
        return name in self._keys

    # By identity, as torch's modules: MutableMapping compares contents, and takes the hash away.
    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


def check_name(module: nn.Module, name: object, where: str) -> None:
    """Raise ModuleTreeError for a name that a part of `module` can't have in a path."""
    if not isinstance(name, str) or not name or "." in name:
        raise ModuleTreeError(
            f"{where}: expected names of modules to be texts without dots, got {name!r};"
            f" use another name, such as {str(name).replace('.', '_') or 'first'!r}"
        )
    groups = (module.__dict__, module._parameters, module._buffers, module._modules)
    if hasattr(type(module), name) or any(name in group for group in groups):
        raise ModuleTreeError(
            f"{where}: '{name}' can't name a module, since it is an attribute of {type(module).__name__} already;"
            f" use another name, such as '{name}_'"
        )


class ModuleEnum(Module):
    """One of several variants, each with a module of its own (Burn's enum): subclass it, and name the variant.

    Example:
        >>> from torch import nn
        >>> class Head(ModuleEnum): ...
        >>> head = Head(Plain=nn.Linear(2, 1))
        >>> head.variant, head.value
        ('Plain', Linear(in_features=2, out_features=1, bias=True))
    """

    def __init__(self, **variant: Any) -> None:
        super().__init__()
        if len(variant) != 1:
            raise ModuleTreeError(f"{type(self).__name__}: expected one variant=module, got {list(variant) or 'none'}")
        ((name, value),) = variant.items()
        check_name(self, name, type(self).__name__)
        self.__dict__["_variant"] = name
        setattr(self, name, value)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._burnlike_container = f"Enum:{cls.__name__}"

    @property
    def variant(self) -> str:
        return self.__dict__["_variant"]

    @property
    def value(self) -> Any:
        """The content of the variant: a module, or None and constants."""
        return getattr(self, self.variant)
