"""Training and validation, frozen and trainable: what is tracked now, and what is meant to be."""

from typing import TypeVar

from torch import Tensor, nn

from .param import Kind
from .param_group import ParamGroup
from .registry import params, weights
from .shell import shell
from .slots import meta_of, set_meta
from .tree import base_tensor

M = TypeVar("M", bound=nn.Module)


def valid(module: M) -> M:
    """A view of `module` for validation: in evaluation mode, and nothing in it requires grad.

    It shares all memory with `module`, which stays as it is, so it sees later updates. What was meant to be trained is
    remembered: `train()` on the view makes it trainable again. Of wrappers (DDP, torch.compile) it is a view of the
    inner module.

    Raises:
        ModuleTreeError: the tree is sharded by `fully_shard`.
    """

    def place(owner: nn.Module, name: str, kind: Kind, tensor: Tensor) -> Tensor:
        if kind == "state":
            return tensor
        return nn.Parameter(tensor.detach(), requires_grad=False)  # a lazy one gets its values, which both then share

    new = shell(module, place)
    for param, original in zip(weights(new), weights(module), strict=True):
        set_meta(*param.home, None, trainable=original.trainable)
    return new.train(False)


def train(module: M) -> M:
    """Put `module` into training mode, in place, and track again what is meant to be trained; returns it.

    As `module.train()` of a burnlike Module; use this for others.
    """
    module.train()
    for param in weights(module):
        restore_intent(*param.home)
    return module


def restore_intent(module: nn.Module, name: str) -> None:
    """Let the parameter `name` require grad if it is meant to be trained."""
    intent = meta_of(module, name).trainable
    if intent is None:
        return
    tensor = base_tensor(module, name)
    if tensor is not None:
        tensor.requires_grad_(intent)
        set_meta(module, name, None, trainable=None)


def no_grad(module: M) -> M:
    """Freeze every parameter, in place, for good: `train()` does not undo it. Returns the module."""
    for param in weights(module):
        param.set_require_grad(False)
    return module


def freeze(module: M, group: ParamGroup | None = None) -> M:
    """Freeze the parameters of `group`, or all, in place; returns the module.

    Raises:
        ParamPathError: the group names a path that the module does not have; nothing is changed.
        ModuleTreeError: a predicate of the group raised; nothing is changed.
    """
    return _set_require_grad(module, group, False)


def unfreeze(module: M, group: ParamGroup | None = None) -> M:
    """Make the parameters of `group`, or all, trainable, in place; returns the module.

    Raises:
        ParamPathError: the group names a path that the module does not have; nothing is changed.
        ModuleTreeError: a predicate of the group raised; nothing is changed.
    """
    return _set_require_grad(module, group, True)


def _set_require_grad(module: M, group: ParamGroup | None, require_grad: bool) -> M:
    found = params(module, "weight") if group is None else [p for p in group.select(module) if p.kind == "weight"]
    for param in found:
        param.set_require_grad(require_grad)
    return module
