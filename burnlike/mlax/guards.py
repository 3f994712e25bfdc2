"""Guards, which keep a module with holes from computing as if nothing were missing.

A hole is a slot that is None, which torch's layers take for a parameter that was left out: Linear has no bias then, and
BatchNorm takes the statistics of the batch. So a module with a hole has a Guard in place of its `forward`, and so
has every module around it, as some read the parameters of their parts themselves (MultiheadAttention).
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn

from ..errors import EmptyParamError
from ..module.attributes.plain_attributes import Above
from ..module.identity.field_metadata import fields_with, meta_of
from ..module.torch_objects.wrappers import parts_of

C = TypeVar("C", bound=Callable[..., Any])
_OWN = "_burnlike_forward"
"""Where a module with a Guard keeps the `forward` that its object had beside that of its class."""


class Guard(Above):
    """The `forward` of a module that has a hole, or a part with one: computes only when all of them are filled.

    `torch.func.functional_call` fills them for the time of the call.
    """

    __slots__ = ()

    def __call__(self, *args: Any, **options: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        module = self.module()
        assert module is not None, "it is called as an attribute of the module"
        _refuse(module)
        forward = module.__dict__.get(_OWN)
        return forward(*args, **options) if forward is not None else type(module).forward(module, *args, **options)

    @property
    def __code__(self) -> Any:
        """As a function has it: torch.export looks there for the names of arguments."""
        cls: Any = type(self.module())
        return cls.forward.__code__


torch.serialization.add_safe_globals([Guard])  # a pickled part has it, and it does nothing but refer to its module


def refuse_holes(module: nn.Module) -> None:
    if type(module.__dict__.get("forward")) is Guard:
        _refuse(module)


def guarding(call: C) -> C:
    """`call`, the `__call__` of a class, which goes past `forward`, made to refuse holes."""

    @functools.wraps(call)
    def guarded(self: nn.Module, *args: Any, **options: Any) -> Any:
        refuse_holes(self)
        return call(self, *args, **options)

    return guarded  # pyright: ignore[reportReturnType]


def guard_holes(root: nn.Module) -> None:
    """Put a Guard on each module of a new tree that has a hole, or a part with one, and take it from all others."""
    _guard(root, {}, torch.compiler.is_compiling())


def without_guard(parts: dict[str, Any]) -> dict[str, Any]:
    """The `__dict__` of a module as it is when it has no hole; `parts` itself if it has none."""
    if type(parts.get("forward")) is not Guard:
        return parts
    rest = {name: value for name, value in parts.items() if name not in ("forward", _OWN)}
    return {**rest, "forward": parts[_OWN]} if _OWN in parts else rest


def _guard(module: nn.Module, has_hole: dict[Any, bool], compiling: bool) -> bool:
    key = module if compiling else id(module)  # compiled code must not depend on what ids are
    if key in has_hole:
        return has_hole[key]
    has_hole[key] = bool(_own_hole(module))
    for child in module._modules.values():
        if child is not None and _guard(child, has_hole, compiling):
            has_hole[key] = True
    parts = module.__dict__
    has_guard = type(parts.get("forward")) is Guard
    if has_hole[key] and not has_guard:
        if "forward" in parts:
            parts[_OWN] = parts.pop("forward")
        parts["forward"] = Guard(module)
    elif has_guard and not has_hole[key]:
        del parts["forward"]
        if _OWN in parts:
            parts["forward"] = parts.pop(_OWN)
    return has_hole[key]


def _own_hole(module: nn.Module) -> str | None:
    """The name of a hole of `module` itself; None if it has none."""
    # A loop, as torch.compile traces generators slowly.
    for name in fields_with(module, "meta"):
        empty = module._parameters.get(name) is None and module._buffers.get(name) is None
        if empty and meta_of(module, name).hole and module._modules.get(name) is None:
            return name
    return None


def _refuse(root: nn.Module) -> None:
    for prefix, module in parts_of(root):
        if (name := _own_hole(module)) is not None:
            raise EmptyParamError(
                f"Parameter '{prefix}{name}' of {type(module).__name__} is a hole: combine the part with the one that"
                " has it"
            )
