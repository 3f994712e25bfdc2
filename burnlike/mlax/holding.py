"""Reads and changes the tensors that a module holds under the name of a Parameter."""

from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ArgumentError, DTypeError
from ..module.identity.field_ids import copy_id, keep_id, known_id, noting_at
from ..module.identity.field_metadata import KeptId, Meta, change_field, copy_meta, meta_of
from ..module.identity.param_id import ParamId
from ..module.transforms.structural_copy import shell
from ..module.tree.param import Kind
from .data import DataTree, as_data, check_trainable, grow, put, put_tensor, refill


class TracedProperty(property):
    """A property whose setter torch.compile runs: torch 2.11 leaves out that of a plain one without a word."""

    def __set__(self, instance: Any, value: Any) -> None:
        assert self.fset is not None
        self.fset(instance, value)


def content(owner: nn.Module, name: str) -> Tensor | DataTree | None:
    """The data that `owner` holds under `name`; None for a hole or an uninitialized parameter."""
    if name in owner._parameters:
        return owner._parameters[name]
    if name in owner._buffers:
        return owner._buffers[name]
    return owner._modules[name]  # pyright: ignore[reportReturnType]


def is_hole(owner: nn.Module, name: str) -> bool:
    """True if `filter` took out what `owner` held under `name`, and nothing has been put there since."""
    return meta_of(owner, name).hole and content(owner, name) is None


def id_at(owner: nn.Module, name: str) -> ParamId | None:
    """The id of what `owner` holds, or held, as `name`; that of several tensors follows from the first one's.

    None if it has none yet, or is kept elsewhere.
    """
    tree = None if torch.compiler.is_compiling() else owner._modules.get(name)
    whole = tree.whole_id() if isinstance(tree, DataTree) else None
    if whole is not None:
        return whole
    return known_id(owner, name, noting_at(owner, name))


def kind_at(owner: nn.Module, name: str) -> Kind:
    """The kind of what `owner` holds, or held, under `name`."""
    if name in owner._parameters or name in owner._buffers:
        return "weight" if name in owner._parameters else "state"
    tree = owner._modules.get(name)
    return "state" if isinstance(tree, DataTree) and not tree.weights() else "weight"


def empty(owner: nn.Module, name: str, kind: Kind) -> None:
    put(owner, name, owner._buffers if kind == "state" else owner._parameters, None)


def write(owner: nn.Module, name: str, data: Any, trainable: bool, kind: Kind) -> None:
    """Put checked `data` under `name`, whose id is known, in place of what was there."""
    tree = owner._modules.get(name)
    if isinstance(tree, DataTree):
        if refill(tree, data, trainable, kind):
            return
        share_id(owner, name, owner, name)
    if isinstance(data, Tensor):
        put_tensor(owner, name, data, trainable, kind)
    else:
        param_id = id_at(owner, name)
        assert param_id is not None
        put(owner, name, owner._modules, grow(data, param_id, trainable, kind))


def share_id(owner: nn.Module, name: str, other: nn.Module, other_name: str) -> None:
    """Let `other` keep for `other_name` the id of what `owner` holds, or held, as `name`."""
    if torch.compiler.is_compiling():  # compiled code is not to depend on what ids are
        copy_id(owner, name, other, other_name)
    elif (param_id := id_at(owner, name)) is not None:
        keep_id(other, other_name, param_id, None)


def share(owner: nn.Module, name: str, other: nn.Module, other_name: str) -> None:
    """Let `other` hold under `other_name` the same tensors as `owner` under `name`, with id and all that is known."""
    held, kind = content(owner, name), kind_at(owner, name)
    share_id(owner, name, other, other_name)
    if isinstance(held, DataTree):
        put(other, other_name, other._modules, shell(held, lambda owner, name, kind, tensor: tensor))
    else:
        put(other, other_name, other._buffers if kind == "state" else other._parameters, held)
    copy_meta(owner, name, other, other_name)


def holders(owners: tuple[tuple[nn.Module, str], ...], held: Any) -> list[tuple[nn.Module, str]]:
    """The attributes `owners`, and those of the same modules that hold the same tensor."""
    places = list(owners)
    for owner, _ in owners:
        if isinstance(held, Tensor):
            for group in (owner._parameters, owner._buffers):
                places += [(owner, name) for name, tensor in group.items() if tensor is held]
        elif isinstance(held, DataTree) and (first := held.first()) is not None:
            trees = [(name, child) for name, child in owner._modules.items() if isinstance(child, DataTree)]
            places += [(owner, name) for name, tree in trees if tree.first() is first]
    return list(dict.fromkeys(places))


class Unbound(nn.Module):
    """Holds, as `value`, a Parameter that no module has yet."""


def declared(
    trainable: bool | None, data: Any, name: str | None, kind: Kind | None, param_id: ParamId | None
) -> Unbound:
    """The object that holds a Parameter until a module has it; arguments and errors are those of `Parameter`."""
    if trainable is not None and not isinstance(trainable, bool):
        raise TypeError(f"Parameter: expected trainable to be True, False or None, got {trainable!r}")
    if kind not in (None, "weight", "state"):
        raise ArgumentError(f"Parameter: expected kind 'weight' or 'state', got {kind!r}")
    if kind == "state" and trainable:
        raise DTypeError("Parameter: a state can't be trainable; use trainable=False")
    if trainable is None and data is not None:
        raise ArgumentError("Parameter: expected trainable=True or False for data, got None, which marks a hole")
    holder = Unbound()
    meta = Meta(name=name, own_id=param_id is not None, kind=kind or "weight")
    if data is None:
        meta.trainable, meta.hole = trainable, trainable is None
        empty(holder, "value", meta.kind)
    else:
        data = as_data(data)
        if trainable:
            check_trainable(data, "Parameter")
    change_field(holder, "value", {"id": KeptId(param_id or ParamId.new("Parameter")), "meta": meta.plain()})
    if data is not None:
        write(holder, "value", data, bool(trainable), meta.kind)
    return holder
