"""Lists, tuples, dicts and users' own containers of modules, as parts of a module tree.

A `burnlike.Module` wraps what is assigned to it: a list that holds a module or parameter becomes a `ModuleVec`, a tuple
a `ModuleTuple`, a dict a `ModuleDict`. They are `nn.Module`s, so every torch tool sees what they hold.
"""

from collections.abc import Iterable, Iterator, Mapping, MutableSequence, Sequence
from typing import Any, Protocol, Self, overload, runtime_checkable

from torch import nn

from ..errors import ModuleTreeError
from .constants import Constant
from .module import Module
from .param import Param


@runtime_checkable
class ModuleContainer(Protocol):
    """A container type of a user's own: with these two methods it joins visit, map, paths and records.

    It is no `nn.Module`. When it is assigned to a `burnlike.Module`, `module.name` stays the container.
    """

    def module_children(self) -> Mapping[str, Any]:
        """What it holds, by name: modules, parameters, lists of them, or constants."""
        ...

    def with_module_children(self, children: Mapping[str, Any]) -> Self:
        """A container like this one that holds `children` instead, under the same names."""
        ...


def wrap(value: Any) -> Any:
    """The module that `value` becomes as a field, or `value` itself if it holds no part of a tree."""
    if not _holds_part(value):
        return value
    if isinstance(value, dict):
        return ModuleDict(value)
    if isinstance(value, tuple):
        return ModuleTuple(value)
    if isinstance(value, list):
        return ModuleVec(value)
    return Held(value)


def _holds_part(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(_is_part(item) or _holds_part(item) for item in value)
    if isinstance(value, dict):
        return any(_is_part(item) or _holds_part(item) for item in value.values())
    return not isinstance(value, type) and hasattr(type(value), "with_module_children")


def _is_part(value: Any) -> bool:
    return isinstance(value, nn.Module | nn.Parameter | Param | Constant)


class ModuleTuple(Module, Sequence[Any]):
    """A fixed sequence of modules, parameters, None and constants; a tuple assigned to a Module becomes one."""

    _container = "Tuple"

    def __init__(self, items: Iterable[Any] = ()) -> None:
        super().__init__()
        self.__dict__["_count"] = 0
        for item in items:
            self._append(item)

    def _append(self, item: Any) -> None:
        self._check(self._count, item)
        setattr(self, str(self._count), item)
        self.__dict__["_count"] += 1

    def _check(self, index: int, item: Any) -> None:
        """Refuse what can't be an element; any value can."""

    @property
    def _indices(self) -> range:
        return range(self._count)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, str(index)) for index in self._indices)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._like(self._entries()[index])
        return getattr(self, str(self._indices[index]))

    def _like(self, items: Iterable[Any]) -> Any:
        """A sequence of this kind with other items."""
        return ModuleTuple(items)

    def _entries(self) -> list[Any]:
        """The items as they can be assigned elsewhere: tensors with their ids."""
        return [self._entry(str(index)) for index in self._indices]

    def _entry(self, name: str) -> Any:
        for kind, group in (("weight", self._parameters), ("state", self._buffers)):
            if group.get(name) is not None:
                return Param.of(self, name, kind)
        return getattr(self, name)


class ModuleArray(ModuleTuple):
    """A fixed sequence of modules of one kind (Burn's array)."""

    _container = "Array"

    def _like(self, items: Iterable[Any]) -> Any:
        return ModuleArray(items)


class ModuleVec(ModuleTuple, MutableSequence[Any]):
    """A list of modules, parameters, None and constants; a list assigned to a Module becomes one.

    Ids go along when items are inserted, removed or moved.
    """

    _container = "Vec"

    def _like(self, items: Iterable[Any]) -> Any:
        return ModuleVec(items)

    @overload
    def __setitem__(self, index: int, value: Any) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Iterable[Any]) -> None: ...
    def __setitem__(self, index: int | slice, value: Any) -> None:
        if isinstance(index, slice):
            entries = self._entries()
            entries[index] = list(value)
            self._replace(entries)
        else:
            self._check(self._indices[index], value)
            setattr(self, str(self._indices[index]), value)

    def __delitem__(self, index: int | slice) -> None:
        entries = self._entries()
        del entries[index]
        self._replace(entries)

    def insert(self, index: int, value: Any) -> None:
        """Put `value` before the item at `index`."""
        entries = self._entries()
        entries.insert(index, value)
        self._replace(entries)

    def append(self, value: Any) -> None:
        """Put `value` at the end."""
        self._append(value)

    def _replace(self, entries: list[Any]) -> None:
        for index, item in enumerate(entries):
            self._check(index, item)
        parts = self.__dict__
        kept = (parts.get("_param_ids", {}), parts.get("_param_metas", {}))
        for index in self._indices:
            for group in (self._parameters, self._buffers, self._modules, parts, *kept):
                group.pop(str(index), None)
        self.__dict__["_count"] = 0
        for item in entries:
            self._append(item)


class ModuleDict(Module, Mapping[str, Any]):
    """Modules, parameters, None and constants by name; a dict assigned to a Module becomes one.

    Raises:
        ModuleTreeError: a name is no text, or can't be a part of a path.
    """

    _container = "Dict"

    def __init__(self, items: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.__dict__["_names"] = {}
        for name, item in (items or {}).items():
            self[name] = item

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        return getattr(self, name)

    def __setitem__(self, name: str, item: Any) -> None:
        if not isinstance(name, str) or not name or "." in name or (name not in self._names and hasattr(self, name)):
            raise ModuleTreeError(
                f"expected names of modules to be texts without dots that no attribute has, got {name!r};"
                " use other names, or keep a dict of texts"
            )
        setattr(self, name, item)
        self._names[name] = None

    def __delitem__(self, name: str) -> None:
        del self._names[name]
        delattr(self, name)

    def __iter__(self) -> Iterator[str]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return iter(list(self._names))

    def __len__(self) -> int:
        return len(self._names)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


class ModuleEnum(Module):
    """One of several variants, each with a module of its own (Burn's enum): subclass it, and name the variant.

    Example:
        >>> from torch import nn
        >>> class Head(ModuleEnum): ...
        >>> head = Head(Plain=nn.Linear(2, 1))
        >>> head.variant, head.value
        ('Plain', Linear(in_features=2, out_features=1, bias=True))
    """

    def __init__(self, **variant: nn.Module) -> None:
        super().__init__()
        if len(variant) != 1:
            raise ModuleTreeError(f"{type(self).__name__}: expected one variant=module, got {list(variant) or 'none'}")
        ((name, value),) = variant.items()
        setattr(self, name, value)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._container = f"Enum:{cls.__name__}"

    @property
    def variant(self) -> str:
        """The name of the variant."""
        return next(iter(self._modules))

    @property
    def value(self) -> Any:
        """The module of the variant."""
        return self._modules[self.variant]


class Held(Module):
    """The part of a tree that stands for a user's container; what it holds is registered here for torch."""

    def __init__(self, container: ModuleContainer) -> None:
        super().__init__()
        self.__dict__["_container"] = f"Struct:{type(container).__name__}"
        self.__dict__["_held"] = container
        self.__dict__["_holder"] = None
        for name, child in container.module_children().items():
            super().__setattr__(name, child)

    def attach(self, owner: nn.Module, name: str) -> None:
        """Note whose attribute shows the container."""
        self.__dict__["_holder"] = (owner, name)
        owner.__dict__[name] = self.__dict__["_held"]

    def rebuild(self) -> None:
        """Make the container hold what this module holds."""
        container = self.__dict__["_held"]
        names = container.module_children()
        self.__dict__["_held"] = container.with_module_children({name: getattr(self, name) for name in names})
        owner, name = self.__dict__["_holder"]
        owner.__dict__[name] = self.__dict__["_held"]

    def refresh(self) -> None:
        """Take over what the user changed in the container."""
        children = self.__dict__["_held"].module_children()
        for name, child in children.items():
            if getattr(self, name, None) is not child:
                super().__setattr__(name, child)
        for name in [name for name in self._modules if name not in children]:
            super().__delattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if self.__dict__.get("_holder") is not None and name in self.__dict__["_held"].module_children():
            self.rebuild()

    def named_modules(self, *args: Any, **options: Any) -> Any:
        """As `nn.Module.named_modules`, of what the container holds now."""
        self.refresh()
        return super().named_modules(*args, **options)
