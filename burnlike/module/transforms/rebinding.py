"""Makes the attributes and hooks of a copied tree refer to the copy where they referred to the original."""

from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import Any

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ..._torch_compat.modules import HOOKS, function_of, with_function
from ..identity.constants import Above
from ..identity.plain_attributes import DEEPEST, plain_names, with_items

_PLAIN = frozenset({type(None), bool, int, float, str, type})
_NESTING = frozenset({list, tuple, dict, partial})

CopyOf = Callable[[Any], Any]


def rebind_attributes(module: nn.Module, copy_of: CopyOf) -> None:
    """Let the attributes of `module`, a copy that has those of its original, refer to copies.

    Modules, tensors and methods of modules are found also within lists, tuples, dicts and `functools.partial`. What
    holds one of them is a new object; all else stays the same object.

    Args:
        module: the copy; its registries of parameters, buffers and modules are left as they are.
        copy_of: the copy of a module or tensor, or the argument itself where it was not copied.
    """
    parts = module.__dict__
    for name in plain_names(parts):
        value = parts[name]
        if type(value) in _PLAIN:
            continue
        found = _rebound_handle(value, parts) if isinstance(value, RemovableHandle) else _rebound(value, copy_of, 0)
        if found is not value:
            parts[name] = found


def rebind_hooks(module: nn.Module, copy_of: CopyOf) -> None:
    """As `rebind_attributes`, of hooks; `module` has registries of its own for them."""
    for name in HOOKS:
        if hooks := module.__dict__.get(name):
            for key, hook in hooks.items():
                hooks[key] = with_function(hook, _rebound(function_of(hook), copy_of, 0), module)


def _rebound(value: Any, copy_of: CopyOf, depth: int) -> Any:
    if isinstance(value, nn.Module | Tensor):
        return copy_of(value)
    kind = type(value)
    if isinstance(value, Above):
        module = value.module()
        copied = copy_of(module)
        return value if copied is module else type(value)(copied)
    if kind is MethodType:
        owner = copy_of(value.__self__) if isinstance(value.__self__, nn.Module) else value.__self__
        return value if owner is value.__self__ else value.__func__.__get__(owner)
    if depth == DEEPEST or kind not in _NESTING:
        return value

    def inside(item: Any) -> Any:
        return item if type(item) in _PLAIN else _rebound(item, copy_of, depth + 1)

    if kind is partial:
        parts = (value.func, value.args, value.keywords)
        function, arguments, keywords = rebound = with_items(parts, inside)
        return value if rebound is parts else partial(function, *arguments, **keywords)
    return with_items(value, inside)


def _rebound_handle(handle: RemovableHandle, parts: dict[str, Any]) -> RemovableHandle:
    """The handle of the copy's hook: hooks keep the number that they have in the original."""
    for name in HOOKS:
        hooks = parts.get(name)
        if hooks and handle.id in hooks:
            found = RemovableHandle(hooks)
            found.id = handle.id
            return found
    return handle
