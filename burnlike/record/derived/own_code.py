"""Finds modules whose own code saves or loads more than parameters and buffers in `state_dict()`.

torch calls it at `get_extra_state`, `_save_to_state_dict`, `_load_from_state_dict` and by hooks. Where none of these
is there, records need not ask.
"""

from collections.abc import Callable, Iterable
from enum import IntEnum
from functools import partial
from operator import itemgetter
from typing import Any

from torch import nn

from ..._torch_compat.modules import STATE_HOOKS, TOOLS, function_of
from ...module.identity.field_metadata import fields_with

_METHODS = ("get_extra_state", "set_extra_state", "state_dict", "_save_to_state_dict", "_load_from_state_dict")
_HOOKS = itemgetter(*STATE_HOOKS)


class OwnCode(IntEnum):
    """The methods and hooks of a module that save or load.

    Attributes:
        NONE: nothing.
        OLD_NAMES: it reads state dicts of older versions, as torch's own layers do; else it does nothing.
        ALWAYS: anything; it is the program's.
    """

    NONE = 0
    OLD_NAMES = 1
    ALWAYS = 2


def own_code(modules: Iterable[nn.Module]) -> list[tuple[nn.Module, OwnCode]]:
    """Those of the modules that have code of their own, each with its kind."""
    classes: dict[type, OwnCode] = {}
    found = []
    for module in modules:
        cls = type(module)
        code = classes.get(cls)
        if code is None:
            code = classes[cls] = _of_class(cls)
        if fields_with(module, "holds", "item"):
            code = OwnCode.ALWAYS
        if any(hooks := _HOOKS(module.__dict__)):
            code = max(code, *(origin(hook) for group in hooks for hook in group.values()))
        if code:
            found.append((module, code))
    return found


def _of_class(cls: type) -> OwnCode:
    methods = (getattr(cls, name) for name in _METHODS if getattr(cls, name) is not getattr(nn.Module, name))
    return max(map(origin, methods), default=OwnCode.NONE)


def origin(function: Callable[..., Any]) -> OwnCode:
    """The place where a method or hook was defined."""
    inner: Any = function_of(function)
    while isinstance(inner, partial):
        inner = inner.func
    where = f"{getattr(inner, '__module__', None) or type(inner).__module__}."
    if where.startswith((*TOOLS, "burnlike.")):
        return OwnCode.NONE  # where tensors lie, not which there are
    return OwnCode.OLD_NAMES if where.startswith("torch.nn.") else OwnCode.ALWAYS
