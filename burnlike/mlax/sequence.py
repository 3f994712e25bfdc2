"""ModuleSeq, and the containers that replace lists, tuples and dicts of modules in an `mlax.Module`."""

from collections.abc import Iterable
from typing import Any

from torch import nn

from ..module.containers.mappings import ModuleDict
from ..module.containers.sequences import Container, ModuleTuple, ModuleVec
from ..module.containers.user_containers import holds_part
from ..module.tree.param import Param
from .holding import Unbound, share
from .module import Module
from .parameter import Parameter


class _Items(Module, Container):  # pyright: ignore[reportIncompatibleMethodOverride]
    """Containers whose items can be Parameters."""

    def _entry(self, name: str) -> Any:
        return unbound(self, name) if self._holds(name) else super()._entry(name)

    def _released(self, name: str) -> Any:
        """The item as it is to be returned when it is taken out."""
        return unbound(self, name) if self._holds(name) else getattr(self, name)


class FixedSeq(_Items, ModuleTuple):  # pyright: ignore[reportIncompatibleMethodOverride]
    """A fixed sequence of modules, Parameters, None and constants; a tuple assigned to a Module becomes one."""


class NamedItems(_Items, ModuleDict):  # pyright: ignore[reportIncompatibleMethodOverride]
    """Modules, Parameters, None and constants by name; a dict assigned to a Module becomes one."""

    def pop(self, name: str, *default: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        if name not in self:
            return super().pop(name, *default)
        item = self._released(name)
        del self[name]
        return item


class MixedSeq(_Items, ModuleVec):  # pyright: ignore[reportIncompatibleMethodOverride]
    """A list that holds None or constants beside modules and Parameters; assigned to a Module, it becomes one."""

    def pop(self, index: int = -1) -> Any:
        """Remove the item at `index` and return it; a Parameter then is no longer this module's."""
        item = self._released(self._name_at(index))
        del self[index]
        return item

    def _places_of(self, values: list[Any]) -> list[int | None]:
        owners = [value.owners[0] if isinstance(value, Parameter) else (None, "") for value in values]
        return [int(name) if owner is self else None for owner, name in owners]


class ModuleSeq(MixedSeq):
    """A list of modules and Parameters; a list assigned to a Module becomes one.

    Names in `state_dict` are the indices; ids go along when items are inserted and removed. A slice is a ModuleSeq that
    shares the items. It is a TypeError, with the index, if an item is neither.
    """

    def __init__(self, submodules: Iterable[Any] = ()) -> None:
        self.__dict__["_count"] = 0  # without the base's, so that a subclass may assign fields before
        is_sequence = isinstance(submodules, ModuleTuple)
        items = map(submodules._shown, submodules._names()) if is_sequence else submodules
        self._fill(list(items))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return ModuleSeq([self._shown(name) for name in self._names()[index]])
        return super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(index, slice):
            _check_item(range(len(self))[index], value)
        super().__setitem__(index, value)

    def _check(self, items: list[Any], first: int) -> None:
        for index, item in enumerate(items, first):
            _check_item(index, item)


def as_items(value: list[Any] | tuple[Any, ...] | dict[Any, Any], where: str) -> Any:
    """The module that a list, tuple or dict of parts becomes as a field."""
    if isinstance(value, dict):
        return NamedItems(value, where=where)
    if isinstance(value, tuple):
        return FixedSeq(value)
    return ModuleSeq(value) if all(map(_is_item, value)) else MixedSeq(value)


def unbound(owner: nn.Module, name: str) -> Parameter:
    """A Parameter of its own that shares with the field `name` of `owner` its tensors, id and all else."""
    holder = Unbound()
    share(owner, name, holder, "value")
    return Parameter.at(((holder, "value"),))


def _is_item(value: Any) -> bool:
    return isinstance(value, nn.Module | Param) or holds_part(value)


def _check_item(index: int, item: Any) -> None:
    if not _is_item(item):
        raise TypeError(f"item {index} of a ModuleSeq: expected a module or a Parameter, got {type(item).__name__}")
