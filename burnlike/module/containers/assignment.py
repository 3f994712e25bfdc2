"""Turns a list, tuple, dict or user's container into a module when it is assigned to a burnlike Module."""

from typing import Any

from torch import Tensor, nn

from ..attributes.constants import MarkedConstant
from ..tree.param import Param
from .mappings import ModuleDict
from .sequences import ModuleTuple, ModuleVec
from .user_containers import ContainerModule, is_container, looks_like_container

_PARTS = (nn.Module, nn.Parameter, nn.Buffer, Param, MarkedConstant)
_LOOK_INTO = (nn.Module, Tensor, Param, MarkedConstant, list, tuple, dict)


def as_module(value: Any, where: str, current: Any = None) -> Any:
    """The module that `value` becomes as a field, or `value` itself if it holds no part of a tree.

    An empty list is one where `current`, what the field holds, is a ModuleVec. `where` is for errors.
    """
    if not holds_part(value) and not (isinstance(value, list | tuple | dict) and _empties(value, current)):
        return value
    if is_container(value):
        return ContainerModule(value, where)
    if isinstance(value, dict):
        return ModuleDict(value, where=where)
    return ModuleTuple(value) if isinstance(value, tuple) else ModuleVec(value)


def _empties(value: list[Any] | tuple[Any, ...] | dict[Any, Any], current: Any) -> bool:
    kind = ModuleDict if isinstance(value, dict) else ModuleTuple
    return not value and isinstance(current, kind)


def holds_part(value: Any, around: tuple[Any, ...] = ()) -> bool:
    """Whether `value` is a container with a part of a module tree in it; `around` it are those it lies in."""
    if any(outer is value for outer in around):  # a constant may hold itself
        return False
    if is_container(value):
        return not isinstance(value, tuple) or _any_part(value, (*around, value))
    if isinstance(value, dict):
        return _any_part(value.values(), (*around, value))
    return isinstance(value, list | tuple) and _any_part(value, (*around, value))


def is_part(value: Any, around: tuple[Any, ...] = ()) -> bool:
    """Whether `value` is a part of a module tree, or holds one."""
    return isinstance(value, _PARTS) or holds_part(value, around)


def _any_part(items: Any, around: tuple[Any, ...]) -> bool:
    # Each type once, so that long lists of numbers or texts cost little.
    if any(issubclass(kind, _LOOK_INTO) or looks_like_container(kind) for kind in set(map(type, items))):
        return any(is_part(item, around) for item in items)
    return False
