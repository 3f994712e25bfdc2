"""Copies of a module tree that share everything but what the caller replaces."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ..errors import ModuleTreeError
from .references import rebind
from .slots import Kind, copy_slots, meta_of, set_meta
from .wrappers import is_sharded, unwrap

Place = Callable[[nn.Module, str, Kind, Tensor], Tensor | None]
M = TypeVar("M", bound=nn.Module)

_COPIED = (
    "_non_persistent_buffers_set",
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


def shell(module: M, place: Place) -> M:
    """A new tree of the same classes, with other tensors and the same ids; `module` is untouched.

    Wrappers around modules (DDP, torch.compile, `module.compile()`) are left out. Shared modules stay shared, tied
    tensors tied. Attributes and hooks that refer to parts of `module` refer to those of the new tree, all other
    constants are the same objects. Where a plain tensor takes the place of an `nn.Parameter`, it stays known whether
    that required grad. torch.compile can trace it, and need not compile anew for another module of the same form.

    Args:
        module: any `nn.Module`.
        place: the tensor for `(owner, name, kind, tensor)`, called once for each distinct tensor; None leaves the
            name without one. Non-persistent buffers are passed too.

    Raises:
        ModuleTreeError: the tree is sharded by `fully_shard`, whose state belongs to the original.
    """
    modules: dict[object, nn.Module] = {}
    tensors: dict[Tensor, Tensor | None] = {}
    new = _shell(module, place, modules, tensors)

    def copy_of(value: Any) -> Any:
        if isinstance(value, Tensor):
            return tensors.get(value, value)
        return modules.get(_key(unwrap(value)), value)

    for part in modules.values():
        rebind(part, copy_of)
    for part in reversed(list(modules.values())):  # users' containers, those that others hold first
        if "_burnlike_held" in part.__dict__:
            part.rebuild()  # pyright: ignore[reportCallIssue]
    return new  # pyright: ignore[reportReturnType]


def _shell(
    module: nn.Module, place: Place, modules: dict[object, nn.Module], tensors: dict[Tensor, Tensor | None]
) -> nn.Module:
    module = unwrap(module)
    if _key(module) in modules:
        return modules[_key(module)]
    if is_sharded(module):
        raise ModuleTreeError(
            f"{type(module).__name__} is sharded by fully_shard and can't be copied; change it in place (map_, freeze,"
            " eval), or copy it before it is sharded"
        )
    new = type(module).__new__(type(module))
    modules[_key(module)] = new
    parts = new.__dict__
    parts.update(module.__dict__)
    parts.pop("_burnlike_walk", None)
    parts.pop("_compiled_call_impl", None)  # it computes with the original
    for key in _COPIED:
        if key in parts:
            parts[key] = parts[key].copy()
    copy_slots(module, new)

    def placed(name: str, kind: Kind, tensor: Tensor | None) -> Tensor | None:
        if tensor is None:
            return None
        if tensor not in tensors:
            tensors[tensor] = place(module, name, kind, tensor)
        placed_tensor = tensors[tensor]
        if kind == "weight" and placed_tensor is not None:
            _keep_intent(new, name, tensor, placed_tensor)
        return placed_tensor

    parts["_parameters"] = {name: placed(name, "weight", tensor) for name, tensor in module._parameters.items()}
    parts["_buffers"] = {name: placed(name, "state", tensor) for name, tensor in module._buffers.items()}
    parts["_modules"] = {
        name: None if child is None else _shell(child, place, modules, tensors)
        for name, child in module._modules.items()
    }
    return new


def _keep_intent(module: nn.Module, name: str, before: Tensor, now: Tensor) -> None:
    """Note whether a parameter required grad when a plain tensor takes its place, and forget it when one is back."""
    meta = meta_of(module, name)
    if isinstance(before, nn.Parameter) and not isinstance(now, nn.Parameter):
        intent = before.requires_grad if meta.trainable is None else meta.trainable
        set_meta(module, name, trainable=intent, stood_for=before.requires_grad)
    elif meta.stood_for is not None and isinstance(now, nn.Parameter):
        known = meta.trainable is now.requires_grad
        set_meta(module, name, trainable=None if known else meta.trainable, stood_for=None)


def _key(module: nn.Module) -> object:
    # torch.compile guards what `id` is taken of: a new module would be compiled anew. Eagerly, a module need not hash.
    return module if torch.compiler.is_compiling() else id(module)
