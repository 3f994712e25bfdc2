"""Training and validation, frozen and trainable parameters."""

from typing import TypeVar

from torch import Tensor, nn

from ..attributes.plain_attributes import untrack_plain
from ..groups.param_group import ParamGroup, selected
from ..identity.field_metadata import Kind, meta_of, set_meta
from ..tree.param_values import differentiable, track
from ..tree.traversal import slots_of
from ..tree.walk import weights
from .structural_copy import Copies

M = TypeVar("M", bound=nn.Module)


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
