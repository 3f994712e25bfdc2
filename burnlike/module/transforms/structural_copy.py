"""Copies of a module tree that share everything but what the caller replaces.

Their attributes and hooks refer to the copy where those of the original referred to the original.
"""

from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ..._torch_compat.fsdp import MANAGED
from ..._torch_compat.modules import COMPILED_CALL, HOOK_FLAGS, HOOKS, function_of, with_function
from ...errors import ModuleTreeError
from ..attributes.plain_attributes import DEEPEST, USER_CONTAINER, Above, apply_plain, plain_names, with_items
from ..identity.field_metadata import KEPT, Kind, fields_of, meta_of, set_meta
from ..torch_objects.wrappers import is_sharded, unwrap

Place = Callable[[nn.Module, str, Kind, Tensor], Tensor | None]
CopyOf = Callable[[Any], Any]
M = TypeVar("M", bound=nn.Module)

_PLAIN = frozenset({type(None), bool, int, float, str, type})
_NESTING = frozenset({list, tuple, dict, partial})
_HOOKS = (*HOOKS, *HOOK_FLAGS)
_TRACED = torch.__version__ >= "2.13"  # torch.compile of torch 2.11 can't list the attributes of a module
_REGISTRIES: tuple[tuple[str, Kind], ...] = (("_parameters", "weight"), ("_buffers", "state"))


def shell(module: M, place: Place) -> M:
    """A new tree of the same classes, with other tensors and the same ids; `module` is untouched.

    Wrappers around modules (DDP, torch.compile, `module.compile()`) are left out. Shared modules stay shared, tied
    tensors tied. Attributes and hooks that refer to parts of `module` refer to those of the new tree, all other
    constants are the same objects. Where a plain tensor takes the place of an `nn.Parameter`, it stays known whether
    that required grad. torch.compile can trace it, and need not compile anew for another module of the same form.

    `place` gives the tensor for `(owner, name, kind, tensor)`, once for each distinct tensor, those of non-persistent
    buffers too; None leaves the name without one.

    Raises:
        ModuleTreeError: the tree is sharded by `fully_shard`, whose state belongs to the original; or compiled code of
            a torch before 2.13 makes a copy.
    """
    return Copies(module, place).root  # pyright: ignore[reportReturnType]


class Copies:
    """A new tree, `root`, as `shell` makes it, and which part of it stands for which part of the old one.

    `parts` are the modules of the new tree, each once, those that hold others first.
    """

    def __init__(self, module: nn.Module, place: Place) -> None:
        self._place = place
        # torch.compile guards what `id` is taken of: a new module would be compiled anew. Else, modules need not hash.
        self._compiling = torch.compiler.is_compiling()
        if not _TRACED and torch.compiler.is_dynamo_compiling():
            raise ModuleTreeError(
                "compiled code can take modules apart, map and call them in MLAX form only with torch 2.13 or newer,"
                " as torch.compile before can't list their attributes; do it outside of torch.compile, or update torch"
            )
        self._modules: dict[object, nn.Module] = {}
        self._tensors: dict[Tensor, Tensor | None] = {}
        self._ordinary: set[type] = set()  # the classes met that are neither wrappers nor sharded
        self._hooked: dict[object, nn.Module] = {}
        self._containers: list[Any] = []  # of users
        self.root = self._copied(module)
        self.parts = list(self._modules.values())
        for part in self.parts:
            rebind_attributes(part, self._copy_of)
        for part in self._hooked.values():
            rebind_hooks(part, self._copy_of)
        for part in reversed(self._containers):  # those that others hold first
            part.rebuild()

    def of(self, module: nn.Module) -> nn.Module:
        """The part of the new tree that stands for `module`, a part of the old one that wraps nothing."""
        return self._modules[module if self._compiling else id(module)]

    def _copy_of(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._tensors.get(value, value)
        module = unwrap(value)
        return self._modules.get(module if self._compiling else id(module), value)

    def _copied(self, module: nn.Module) -> nn.Module:
        if type(module) not in self._ordinary or MANAGED in module.__dict__:
            module = unwrap(module)
            check_copyable(module)
            self._ordinary.add(type(module))
        key = module if self._compiling else id(module)
        if key in self._modules:
            return self._modules[key]
        self._modules[key] = new = _new(type(module))
        parts = new.__dict__
        parts.update(module.__dict__)
        parts.pop(COMPILED_CALL, None)  # it computes with the original
        for name in _HOOKS:
            parts[name] = hooks = parts[name].copy()
            if hooks:
                self._hooked[key] = new
        if fields := fields_of(module):
            parts[KEPT] = dict(fields)
        if USER_CONTAINER in parts:
            self._containers.append(new)
        parts["_non_persistent_buffers_set"] = parts["_non_persistent_buffers_set"].copy()
        tensors, place = self._tensors, self._place
        for registry, kind in _REGISTRIES:
            parts[registry] = group = parts[registry].copy()
            for name, tensor in group.items():
                if tensor is None:
                    continue
                if tensor not in tensors:
                    tensors[tensor] = place(module, name, kind, tensor)
                group[name] = placed = tensors[tensor]
                if placed is not tensor and placed is not None and kind == "weight":
                    _keep_intent(new, name, tensor, placed)
        parts["_modules"] = modules = parts["_modules"].copy()
        for name, child in modules.items():
            if child is not None:
                modules[name] = self._copied(child)
        return new


def check_copyable(module: nn.Module) -> None:
    if is_sharded(module):
        raise ModuleTreeError(
            f"{type(module).__name__} is sharded by fully_shard and can't be copied; change it in place (map_,"
            " freeze, eval), or copy it before it is sharded"
        )


def _new(cls: type[nn.Module]) -> nn.Module:
    """An empty object of `cls`, without the attributes that its own `__new__` sets."""
    try:
        return object.__new__(cls)
    except TypeError:  # of a class that also extends a built-in type
        return cls.__new__(cls)


def _keep_intent(module: nn.Module, name: str, before: Tensor, now: Tensor) -> None:
    """Note whether a parameter required grad when a plain tensor takes its place, and forget it when one is back."""
    meta = meta_of(module, name)
    if isinstance(now, nn.Parameter):
        if meta.stood_for is not None:
            is_intent = meta.trainable is now.requires_grad
            set_meta(module, name, trainable=None if is_intent else meta.trainable, stood_for=None)
    elif isinstance(before, nn.Parameter):
        intent = before.requires_grad if meta.trainable is None else meta.trainable
        set_meta(module, name, trainable=intent, stood_for=before.requires_grad)


def rebind_attributes(module: nn.Module, copy_of: CopyOf) -> None:
    """Let the attributes of `module`, a copy that has those of its original, refer to copies, as `copy_of` gives them.

    Modules, tensors and methods of modules are found also within lists, tuples, dicts and `functools.partial`. What
    holds one of them is a new object; all else stays the same object.
    """
    parts = module.__dict__
    for name in plain_names(parts):
        value = parts[name]
        if type(value) in _PLAIN:
            continue
        rebound = _rebound_handle(value, parts) if isinstance(value, RemovableHandle) else _rebound(value, copy_of, 0)
        if rebound is not value:
            parts[name] = rebound


def rebind_hooks(module: nn.Module, copy_of: CopyOf) -> None:
    """As `rebind_attributes`, of hooks; `module` has registries of its own for them."""
    for name in HOOKS:
        if hooks := module.__dict__.get(name):
            for key, hook in hooks.items():
                # Left as they are, hooks that are methods would write into the original, as those that record
                # activations do.
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
        if (hooks := parts.get(name)) and handle.id in hooks:
            copied = RemovableHandle(hooks)
            copied.id = handle.id
            return copied
    return handle


def copy_plain_tensors(root: nn.Module) -> None:
    """Give the modules of a copied tree their own copies of plain tensors in attributes, constants excepted."""
    modules = list(root.modules())
    registered = {id(it) for part in modules for it in (*part._parameters.values(), *part._buffers.values())}
    copies: dict[int, Tensor] = {}

    def copied(tensor: Tensor) -> Tensor:
        if id(tensor) in registered:
            return tensor
        if id(tensor) not in copies:
            copies[id(tensor)] = tensor.detach().clone()
        return copies[id(tensor)]

    for module in modules:
        apply_plain(module, copied)
