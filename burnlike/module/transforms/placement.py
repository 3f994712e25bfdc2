"""Counting, moving and copying modules; training and validation, frozen and trainable parameters."""

import copy
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy as is_shapeless

from ...backend.torch_backend import find_device
from ...errors import ModuleTreeError
from ..attributes.plain_attributes import begin_references, references_of, resolve_references, untrack_plain
from ..groups.param_group import ParamGroup, selected
from ..identity.field_metadata import Kind, meta_of, set_meta
from ..torch_objects.lazy_parameter import initialize_param
from ..torch_objects.wrappers import unwrap
from ..tree.param import differentiable, track
from ..tree.traversal import slots_of
from ..tree.walk import fresh_ids, params, weights
from .mapping import kind_of
from .structural_copy import Copies, check_copyable

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
    except Exception as error:  # which doesn't say the field's name
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
            except Exception:  # anything: the field is what is looked for
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


def valid(module: M) -> M:
    """A view of `module` for validation: in evaluation mode, and nothing in it requires grad.

    It shares all memory with `module`, which stays as it is, so it sees later updates; lazy parameters get their values
    for that. What is meant to be trained is remembered: `train()` on the view makes it trainable again. Of wrappers
    (DDP, torch.compile) it is a view of the inner module.

    Raises:
        ModuleTreeError: the tree is sharded by `fully_shard`.
    """

    def place(owner: nn.Module, name: str, kind: Kind, tensor: Tensor) -> Tensor:
        if kind == "state":
            return tensor.detach() if tensor.requires_grad else tensor
        return nn.Parameter(tensor.detach(), requires_grad=False)

    originals = weights(module)  # draws the ids, where there are none
    copies = Copies(module, place)
    for param in originals:
        owner, name = param.home
        # Noted on the view alone: `module` goes on training meanwhile.
        set_meta(copies.of(owner), name, trainable=param.trainable)
    for part in copies.parts:
        untrack_plain(part)
    return copies.root.train(False)  # pyright: ignore[reportReturnType]


def train(module: M) -> M:
    """Put `module` into training mode, in place, and track again what is meant to be trained; returns it.

    As `module.train()` of a burnlike Module; use this for others. Of a module that did not come from `valid`,
    parameters stay as they are, frozen or not.
    """
    module.train()
    restore_intents(module)
    return module


def restore_intents(module: nn.Module) -> None:
    for slot in slots_of(module):
        intent = meta_of(slot.home_module, slot.home_name).trainable
        if slot.kind == "weight" and intent is not None:
            track(slot.tensor, intent)
            set_meta(slot.home_module, slot.home_name, trainable=None)


def require_grad(module: nn.Module, requires_grad: bool) -> None:
    """Let all parameters of floats require grad now, or not; that is also what `train` restores."""
    for slot in slots_of(module):
        if slot.kind == "weight":
            if differentiable(slot.tensor):
                track(slot.tensor, requires_grad)
            if meta_of(slot.home_module, slot.home_name).trainable is not None:
                set_meta(slot.home_module, slot.home_name, trainable=slot.tensor.requires_grad)


def no_grad(module: M) -> M:
    """Freeze every parameter, in place, for good: `train()` does not undo it. Returns the module."""
    return freeze(module)


def freeze(module: M, group: ParamGroup | None = None) -> M:
    """Freeze the parameters of `group`, or all, in place; returns the module.

    Raises:
        ParamPathError: the group names a path that the module does not have; nothing is changed.
        ModuleTreeError: a predicate of the group raised; nothing is changed.
    """
    for param in selected(module, group):
        param.set_require_grad(False)
    return module


def unfreeze(module: M, group: ParamGroup | None = None) -> M:
    """Make the parameters of `group`, or all, trainable, in place; returns the module. Errors are those of `freeze`."""
    for param in selected(module, group):
        param.set_require_grad(True)
    return module
