"""Finds modules that save or load by code of their own: methods and hooks of `state_dict`, or of records."""

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from functools import partial
from operator import itemgetter
from typing import Any

from torch import nn

from ..._torch_compat.modules import STATE_HOOKS, TOOLS, function_of
from ...module.identity.field_metadata import fields_with
from ...module.methods import ModuleMethods
from ...module.torch_objects.wrappers import bare_name, own_class, unwrap
from ...module.tree.walk import walk_of
from ..layout import join

_RECORD_METHODS = ("into_record", "load_record")
_STATE_METHODS = ("get_extra_state", "set_extra_state", "state_dict", "_save_to_state_dict", "_load_from_state_dict")
_HOOKS = itemgetter(*STATE_HOOKS)


class OwnCode(IntEnum):
    """What the methods and hooks of a module do when it is saved or loaded."""

    NONE = 0
    OLD_NAMES = 1  # reads state dicts of older versions, as torch's own layers do
    ALWAYS = 2  # anything; it is the program's


def own_code(modules: Iterable[nn.Module]) -> list[tuple[nn.Module, OwnCode]]:
    """Those of the modules that have code of their own, each with its kind."""
    classes: dict[type, OwnCode] = {}
    found = []
    for module in modules:
        cls = type(module)
        if cls not in classes:
            own = (getattr(cls, it) for it in _STATE_METHODS if getattr(cls, it) is not getattr(nn.Module, it))
            classes[cls] = max(map(origin, own), default=OwnCode.NONE)
        code = classes[cls]
        if fields_with(module, "holds", "item"):
            code = OwnCode.ALWAYS
        if any(hooks := _HOOKS(module.__dict__)):
            code = max(code, *(origin(hook) for group in hooks for hook in group.values()))
        if code:
            found.append((module, code))
    return found


def origin(function: Callable[..., Any]) -> OwnCode:
    """The place where a method or hook was defined."""
    inner: Any = function_of(function)
    while isinstance(inner, partial):
        inner = inner.func
    where = f"{getattr(inner, '__module__', None) or type(inner).__module__}."
    if where.startswith((*TOOLS, "burnlike.")):
        return OwnCode.NONE  # where tensors lie, not which there are
    return OwnCode.OLD_NAMES if where.startswith("torch.nn.") else OwnCode.ALWAYS


def overrides(module: nn.Module, *names: str) -> bool:
    """Whether the class of a module itself defines `into_record` or `load_record`, or the one that is named."""
    cls = own_class(unwrap(module))
    return any(
        getattr(cls, name, None) not in (None, getattr(ModuleMethods, name)) for name in names or _RECORD_METHODS
    )


def parts_with_records(module: nn.Module) -> dict[str, nn.Module]:
    """Path -> part of `module` with a record of its own; none is in another, nor the module itself."""
    root = unwrap(module)
    if not any(overrides(part) for part in {type(it): it for it in walk_of(root).modules}.values()):
        return {}
    found: dict[str, nn.Module] = {}
    for key, part in root.named_modules(remove_duplicate=False):
        path = path_of(key)
        if key and overrides(part) and not path.startswith(below(found)):
            found[path] = unwrap(part)
    return found


def path_of(key: str) -> str:
    """The path of a module that torch gives the name `key`."""
    return bare_name(f"{key}.")[:-1] if key else ""


def below(paths: Mapping[str, object]) -> tuple[str, ...]:
    """The prefixes of names that lie below one of the paths."""
    return tuple(join(path, "") for path in paths)
