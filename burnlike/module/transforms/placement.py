"""Counting, moving and copying modules."""

import copy
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy as is_shapeless

from ...errors import ModuleTreeError
from ..attributes.constants import begin_references, references_of, resolve_references
from ..torch_objects.device import find_device
from ..torch_objects.lazy_parameter import initialize_param
from ..torch_objects.wrappers import unwrap
from ..tree.traversal import slots_of
from ..tree.walk import fresh_ids, params
from .structural_copy import check_copyable
from .visiting import kind_of

M = TypeVar("M", bound=nn.Module)


def num_params(module: nn.Module) -> int:
    """Count the values of all floating-point parameters and running statistics, tied tensors once.

    Lazy parameters are counted without being initialized; those of torch's lazy layers have no shape before the first
    forward, and don't count. No ids are drawn: one rank of a job may count alone.
    """
    tensors = (tensor for tensor in _tensors(module) if not is_shapeless(tensor))
    return sum(tensor.numel() for tensor in tensors if kind_of(tensor) == "float")


def devices(module: nn.Module) -> list[torch.device]:
    """The devices that the parameters are on, each once, in the order they are met; initializes nothing."""
    return list(dict.fromkeys(tensor.device for tensor in _tensors(module)))


def _tensors(module: nn.Module) -> Collection[Tensor]:
    return {id(slot.tensor): slot.tensor for slot in slots_of(module)}.values()


def to_device(module: M, device: torch.device | str) -> M:
    """Move `module` to `device`, in place, and return it; DeviceError if there is none. Parameters stay leaves."""
    return module.to(find_device(device))


def fork(module: M, device: torch.device | str) -> M:
    """A copy of `module` on `device`, with the same ids and leaves of its own, to be trained there; see `clone`."""
    target = find_device(device)
    return clone(module).to(target)


def clone(module: M, new_ids: bool = False) -> M:
    """A copy that shares no memory with `module`, by default with the same ids; lazy parameters share their start.

    Of wrappers (DDP, torch.compile) the inner module is copied. `new_ids` is for a copy that is to live in one tree
    with the original.

    Raises:
        ModuleTreeError: a field holds something that can't be copied, as a database connection, a lock or an open file;
            or the tree is sharded by `fully_shard`.
    """
    original = unwrap(module)
    if not new_ids:
        params(original)  # draws the ids that are not known yet
    copied = copy_with(original, {})
    return fresh_ids(copied) if new_ids else copied  # pyright: ignore[reportReturnType]


def copy_with(module: M, replaced: Mapping[int, Any]) -> M:
    """As `clone`; `replaced` tells by address what stands in the copy for some modules and tensors of `module`."""
    for part in module.modules():
        check_copyable(part)
    # Torch refuses to copy tensors that the module computed last: pruned weights, and states that a plain module's
    # forward pass or an operation in place has tracked.
    values = [value for part in module.modules() for value in (*part.__dict__.values(), *part._buffers.values())]
    computed = {id(it): it.detach().clone() for it in values if isinstance(it, Tensor) and not it.is_leaf}
    memo: dict[int, Any] = {**computed, **replaced}
    begin_references(memo)
    try:
        copied = copy.deepcopy(module, memo)
    except Exception as error:
        raise _uncopied(module, error) or error from error
    resolve_references(memo)
    return copied


def _uncopied(module: nn.Module, error: Exception) -> ModuleTreeError | None:
    """The message for a field that can't be copied: its name, and how copies could share it; None if none is."""
    for path, part in module.named_modules():
        for name, value in part.__dict__.items():
            if name in ("_parameters", "_buffers", "_modules") or name in references_of(part):
                continue
            try:
                copy.deepcopy(value, {id(it): it for it in module.modules()})
            except Exception:
                field = f"{path}.{name}" if path else name
                return ModuleTreeError(
                    f"the field '{field}' of {type(module).__name__}, a {type(value).__name__}, can't be copied"
                    f" ({error}); assign it as burnlike.constant(value) in a burnlike Module, so that copies share it"
                )
    return None


def initialize(module: M) -> M:
    """Give all lazy parameters of `module` their values now; returns the module."""
    for param in module.parameters():
        initialize_param(param)
    return module
