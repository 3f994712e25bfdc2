"""Changes the tensors of one module without changing those of its views."""

import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy as is_shapeless

from ..module.torch_objects.lazy_parameter import is_lazy
from .structure import update_references

M = TypeVar("M", bound=nn.Module)
F = TypeVar("F", bound=Callable[..., Any])
_Slots = list[tuple[dict[str, Any], str]]


def fork_weights(module: M) -> M:
    """Give `module` parameters of its own, in place, which share memory with those it had; returns it."""
    for tensor, slots in _tied(module):
        if is_lazy(tensor):
            _put(slots, copy.deepcopy(tensor))
        elif type(tensor) is nn.Parameter:
            _put(slots, nn.Parameter(tensor.detach(), tensor.requires_grad))
    update_references(module.modules())
    return module


def forking(function: F) -> F:
    """`function`, a method that changes a module in place, so that views which share its tensors keep theirs."""

    @functools.wraps(function)
    def forked(self: nn.Module, *args: Any, **options: Any) -> nn.Module:
        return function(fork_weights(self), *args, **options)

    return forked  # pyright: ignore[reportReturnType]


def converting(method: F) -> F:
    """`method`, one of `nn.Module` that calls `_apply`, for modules whose views keep their tensors."""

    @functools.wraps(method)
    def converted(self: nn.Module, *args: Any, **options: Any) -> nn.Module:
        return _apart(self, lambda module: method(module, *args, **options))

    return converted  # pyright: ignore[reportReturnType]


def _apart(module: M, convert: Callable[[nn.Module], object]) -> M:
    """Let `convert` make new parameters; tied ones stay tied.

    Those that the conversion leaves as they are stay the same objects, so that optimizers keep them.
    """
    before = list(_tied(module))
    lazy = nn.Module()  # torch can't make new ones of these: copies are converted in place
    for index, (tensor, _) in enumerate(before):
        if is_lazy(tensor) or isinstance(tensor, nn.UninitializedParameter):
            lazy.register_parameter(str(index), copy.deepcopy(tensor))  # pyright: ignore[reportArgumentType]
    convert(lazy)
    for index in lazy._parameters:
        _put(before[int(index)][1], None)
    kept = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        convert(module)
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(kept)
        for index, tensor in lazy._parameters.items():
            _put(before[int(index)][1], tensor)
    for tensor, slots in before:
        group, name = slots[0]
        new = group[name]
        _put(slots, tensor if new is not None and _unchanged(tensor, new) else new)
    update_references(module.modules())
    return module


def _put(slots: _Slots, tensor: Tensor | None) -> None:
    for group, name in slots:
        group[name] = tensor


def _unchanged(old: Tensor, new: Tensor) -> bool:
    if is_lazy(old) or is_shapeless(old):
        return type(old) is type(new) and (old.dtype, old.device) == (new.dtype, new.device)
    return (
        (old.dtype, old.device, old.shape) == (new.dtype, new.device, new.shape)
        and not old.is_meta
        and old.data_ptr() == new.data_ptr()
    )


def _tied(module: nn.Module) -> Iterator[tuple[Tensor, _Slots]]:
    """Each distinct tensor of a tree with the places that hold it."""
    slots_of: dict[int, tuple[Tensor, _Slots]] = {}
    for group in (group for part in module.modules() for group in (part._parameters, part._buffers)):
        for name, tensor in group.items():
            if tensor is not None:
                slots_of.setdefault(id(tensor), (tensor, []))[1].append((group, name))
    return iter(slots_of.values())
