"""Replaces the tensor, the flags and the metadata of a Param."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy as is_shapeless

from ..._torch_compat.dispatch import is_traceable_wrapper_subclass
from ..._torch_compat.tensors import takes_data_of
from ...errors import MapperError
from ..attributes.plain_attributes import apply_plain
from ..identity.field_ids import place_id
from ..identity.field_metadata import meta_of, set_meta
from ..torch_objects.memory import is_unfilled
from ..torch_objects.wrappers import is_distributed
from ..tree.param import Param


def write(param: Param, value: Tensor) -> None:
    """Give `param` the values of `value`, which is in memory of its own, in the present memory if they fit there."""
    target = param.tensor
    wrapped = is_traceable_wrapper_subclass(target) or is_traceable_wrapper_subclass(value)
    if (
        not is_unfilled(target)
        and not target.is_inference()
        and (not wrapped or is_distributed(target))
        and _form(target) == _form(value)
    ):
        target.copy_(value)
    else:
        replace_tensor(param, value)


def replace_tensor(param: Param, value: Tensor) -> None:
    """Let the tensor of `param`, the same object, have the memory, shape, type and device of `value`.

    A gradient that does not fit any more is dropped. Where torch can't keep the object, another one takes its place.
    """
    target = param.tensor
    if is_traceable_wrapper_subclass(target) or is_traceable_wrapper_subclass(value):
        made = nn.Parameter(value, requires_grad=target.requires_grad) if param.kind == "weight" else value
        try:
            torch.utils.swap_tensors(target, made)
        except RuntimeError:  # others hold on to it
            param.assign(value)
        return
    if is_unfilled(target):
        target.data = value
        if is_shapeless(target):
            target.__class__ = target.cls_to_become  # pyright: ignore[reportAttributeAccessIssue]
    elif target.is_inference() or not takes_data_of(target, value):
        param.assign(value)
    else:
        if target.grad is not None and _form(target) != _form(value):
            target.grad = None
        target.data = value


def _form(tensor: Tensor) -> tuple[torch.Size, torch.dtype, torch.device]:
    return tensor.shape, tensor.dtype, tensor.device


def check_sharding(param: Param, value: Tensor) -> None:
    target = param.tensor
    if not is_distributed(target) or (is_distributed(value) and _layout(value) == _layout(target)):
        return
    raise MapperError(
        f"the mapper returned a {type(value).__name__} of shape {list(value.shape)} and {value.dtype} for"
        f" '{param.path}', which is sharded: expected a DTensor of the placements, shape and type of param.tensor, as"
        " operations on it give; the module is as it was"
    )


def _layout(tensor: Any) -> tuple[Any, ...]:
    return tensor.device_mesh, tensor.placements, tensor.shape, tensor.dtype


def describe(param: Param, given: Param | None) -> None:
    """Let `param` have the trainability of `given`, if there is another one, and the label and mappers it has."""
    if given is None or given.home == param.home:
        return
    other = meta_of(*given.home)
    known = {"name": other.name, "load_mapper": other.load_mapper, "save_mapper": other.save_mapper}
    changes = {key: value for key, value in known.items() if value is not None}
    if changes:
        set_meta(*param.home, **changes)
    if given.trainable != param.trainable:
        param.set_require_grad(given.trainable)


def restoring(param: Param) -> Callable[[], None]:
    """A function that undoes what a mapper that fails has done to `param`, but for the values of its tensor."""
    (module, name), param_id, tensor = param.home, param.id, param.tensor
    requires_grad, meta = param.requires_grad, meta_of(module, name)

    def restore() -> None:
        if param.tensor is not tensor:
            param.put(tensor)
        if tensor.requires_grad != requires_grad:
            tensor.requires_grad_(requires_grad)
        if place_id(module, name) != param_id:
            param.adopt(param_id)
        if meta_of(module, name) != meta:
            set_meta(module, name, meta)

    return restore


def copy_plain_tensors(root: nn.Module) -> None:
    """Give the modules of a copied tree their own copies of plain tensors in attributes, constants excepted."""
    modules = list(root.modules())
    known = {id(tensor) for module in modules for tensor in (*module._parameters.values(), *module._buffers.values())}
    copies: dict[int, Tensor] = {}

    def copied(tensor: Tensor) -> Tensor:
        if id(tensor) in known:
            return tensor
        if id(tensor) not in copies:
            copies[id(tensor)] = tensor.detach().clone()
        return copies[id(tensor)]

    for module in modules:
        apply_plain(module, copied)
