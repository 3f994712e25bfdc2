"""The data of a Parameter, how a module keeps it under the Parameter's name, and what reads and changes it there.

One tensor lies in the torch slot of the Parameter's name. A pytree of tensors (a list, a dict, a namedtuple, a Key)
lies in a hidden child of that name, a DataTree, so that torch sees ordinary parameters and buffers (`c.0`, `c.1`).
"""

import hashlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from .._torch_compat.transforms import is_wrapped, transforming
from ..errors import ArgumentError, DTypeError
from ..module.identity.field_metadata import (
    KeptId,
    Meta,
    change_field,
    copy_id,
    copy_meta,
    fields_with,
    keep_id,
    known_id,
    meta_of,
    noting_at,
    ordered_fields,
    place_id,
    remember_field,
    set_meta,
)
from ..module.identity.param_id import ParamId
from ..module.printing.display import Content
from ..module.printing.values import sequence_text
from ..module.torch_objects.lazy_parameter import is_lazy
from ..module.transforms.structural_copy import shell
from ..module.tree.param import Kind, Param, differentiable
from ..tensor.core.base import TensorBase
from .pytrees import Level, level_of


def as_data(value: Any, where: str = "data") -> Any:
    if isinstance(value, Tensor):
        return value
    if isinstance(value, TensorBase):
        return value.inner
    if isinstance(value, int | float | complex) or type(value).__module__ == "numpy":
        try:
            return torch.tensor(value)
        except TypeError as error:
            raise TypeError(f"{where}: {error}; expected an array of numbers") from None
    if type(value) is dict:
        for key in value:
            if not isinstance(key, str) or not key or "." in key:
                raise TypeError(f"{where}: expected keys that are texts without dots, got {key!r}")
    level = None if isinstance(value, Param) else level_of(value)
    if level is None:
        raise TypeError(
            f"{where}: expected a tensor, an array, a number, or a list, tuple, dict or other pytree of these, got"
            f" {type(value).__name__}; keep modules and texts as attributes of their own"
        )
    by_text = level.type is dict or level.names != tuple(map(str, range(len(level.names))))
    places = [f"{where}[{name!r}]" if by_text else f"{where}[{name}]" for name in level.names]
    return level.holding(list(map(as_data, level.items, places)))


def tensors_in(data: Any) -> Iterator[Tensor]:
    """The tensors of checked data, in order."""
    if isinstance(data, Tensor):
        yield data
    elif (level := level_of(data)) is not None:
        for item in level.items:
            yield from tensors_in(item)


def check_trainable(data: Any, where: str) -> None:
    for tensor in tensors_in(data):
        if not differentiable(tensor):
            raise DTypeError(f"{where}: {tensor.dtype} can't be trainable; use trainable=False, or floats")


class DataTree(nn.Module):
    """The data of one Parameter that is a pytree of tensors: one level of it; the items are tensors or further levels.

    `_form` is the level without its items; `_masks` says how the id of each tensor differs from that of the whole: by a
    hash of its place.
    """

    _burnlike_ordered = True

    def __init__(self, level: Level) -> None:
        super().__init__()
        self._form = level._replace(items=())
        self._masks: dict[str, int] = {}

    def value(self) -> Any:
        held = self._held()
        items = [held[key] for key in self._form.names]
        return self._form.holding([item.value() if isinstance(item, DataTree) else item for item in items])

    def custom_content(self, content: Content) -> Content:
        """The list, tuple, dict or other pytree that it stands for."""
        kind = {list: "Vec", tuple: "Tuple", dict: "Dict"}.get(self._form.type, self._form.type.__name__)
        content.set_top_level_type(sequence_text(kind, len(self._form.names)))
        held = self._held()
        for key in self._form.names:
            content.add(key, held[key])
        return content

    def _held(self) -> dict[str, Any]:
        return {**self._parameters, **self._buffers, **self._modules}

    def static_key(self) -> tuple[Any, ...]:
        """Its form, all levels of it."""
        levels = tuple((name, child.static_key()) for name, child in self._modules.items())  # pyright: ignore
        return self._form.type, self._form.names, str(self._form.node), levels

    def places(self) -> "Iterator[tuple[DataTree, str]]":
        """The level and name of each tensor, in order."""
        for key in self._form.names:
            if key in self._masks:
                yield self, key
            else:
                yield from self._modules[key].places()  # pyright: ignore[reportOptionalMemberAccess, reportCallIssue]

    def whole_id(self) -> ParamId | None:
        """The id of the whole, which that of its first tensor tells; None if there is no tensor."""
        for level, key in self.places():
            first = place_id(level, key)
            assert first is not None
            return ParamId(first.value ^ level._masks[key])
        return None

    def first(self) -> Tensor | None:
        """The first tensor, by which trees that hold the same ones know each other; None if there is none."""
        return next((tensor for level, key in self.places() if (tensor := level._held()[key]) is not None), None)

    def mark(self) -> "Tensor | DataTree":
        """A key for trees that hold the same tensors: the first tensor, or the tree if there is none."""
        first = self.first()
        return self if first is None else first

    def weights(self) -> "list[tuple[DataTree, str]]":
        """Owner and name of each tensor that is an `nn.Parameter`."""
        return [(level, key) for level, key in self.places() if key in level._parameters]

    def intents(self) -> list[bool]:
        """For each weight, True if it is meant to be trained."""
        return [meta_of(*place).intent(_weight(*place)) for place in self.weights()]

    def is_tracked(self) -> bool:
        return any(meta_of(*place).tracks(_weight(*place)) for place in self.weights())

    def change_ids(self, mask: int) -> None:
        """Change the id of each tensor by `mask`, as that of the whole is changed."""
        for level in self.modules():
            for name in fields_with(level, "id"):
                before = place_id(level, name)
                assert before is not None
                keep_id(level, name, ParamId(before.value ^ mask), noting_at(level, name))


def _weight(owner: nn.Module, name: str) -> nn.Parameter:
    return owner._parameters[name]  # pyright: ignore[reportReturnType]


def refill(tree: DataTree, data: Any, trainable: bool, kind: Kind) -> bool:
    """Put checked `data` in place of what `tree` holds, if it has the same form; whether it has."""
    level = level_of(data)
    if level is None or not _has_form(tree, level):
        return False
    for key, item in zip(level.names, level.items, strict=True):
        if isinstance(item, Tensor):
            put_tensor(tree, key, item, trainable, kind)
        else:
            refill(tree._modules[key], item, trainable, kind)  # pyright: ignore[reportArgumentType]
    return True


def _has_form(tree: DataTree, level: Level) -> bool:
    if level._replace(items=()) != tree._form:
        return False
    for key, item in zip(level.names, level.items, strict=True):
        child, below = tree._modules.get(key), level_of(item)
        if isinstance(child, DataTree) is (below is None):
            return False
        if isinstance(child, DataTree) and below is not None and not _has_form(child, below):
            return False
    return True


def grow(data: Any, whole: ParamId, trainable: bool, kind: Kind, prefix: str = "") -> DataTree:
    """The DataTree that holds checked `data`, a pytree."""
    level = level_of(data)
    assert level is not None, "as_data has checked it"
    tree = DataTree(level)
    for key, item in zip(level.names, level.items, strict=True):
        if isinstance(item, Tensor):
            put_tensor(tree, key, item, trainable, kind)
            # Not by `hash`, which is another one in each process: records find tensors by these ids.
            digest = hashlib.blake2b((prefix + key).encode(), digest_size=8).digest()
            tree._masks[key] = int.from_bytes(digest, "little")
            keep_id(tree, key, ParamId(whole.value ^ tree._masks[key]), None)
        else:
            tree._modules[key] = grow(item, whole, trainable, kind, f"{prefix}{key}.")
        remember_field(tree, key)
    return tree


def put_tensor(owner: nn.Module, name: str, tensor: Tensor, trainable: bool, kind: Kind) -> None:
    """Make `tensor` the parameter or buffer `name` of `owner`."""
    if kind == "state" or not differentiable(tensor):
        put(owner, name, owner._buffers, tensor if _is_left_alone(tensor) else tensor.detach())
        return
    weight = as_weight(tensor, trainable)
    put(owner, name, owner._parameters, weight)
    if not isinstance(weight, nn.Parameter):
        set_meta(owner, name, stood_for=trainable)


def put(owner: nn.Module, name: str, target: dict[str, Any], value: Any) -> None:
    """Keep `value` in `target`, one of the registries of `owner`, and nothing in the others, in order of declaration.

    The order stays what it was, since optimizers know parameters by their number.
    """
    if name in target:
        target[name] = value
        return
    for group in (owner._parameters, owner._buffers, owner._modules):
        group.pop(name, None)
    target[name] = value
    fields = ordered_fields(owner)
    if name in fields:
        ordered = {key: target[key] for key in fields if key in target} | target
        target.clear()
        target.update(ordered)


def _is_left_alone(tensor: Tensor) -> bool:
    """True if a transform of `torch.func` runs that `tensor` is no part of; detached, it would become one."""
    if torch.compiler.is_compiling():
        return False
    return transforming() and not is_wrapped(tensor)


def as_weight(tensor: Tensor, trainable: bool) -> Tensor:
    """A leaf for a slot of `_parameters` that shares memory with `tensor`.

    Inside of torch.compile and of functional transforms it is a plain tensor, as no `nn.Parameter` can be made there;
    inside of transforms it is `tensor` itself, as detaching it would cut the derivative.
    """
    if torch.compiler.is_compiling():
        is_leaf = isinstance(tensor, nn.Parameter) or transforming()
        return tensor if is_leaf else tensor.detach()
    if is_wrapped(tensor) or _is_left_alone(tensor):
        return tensor
    if isinstance(tensor, nn.Parameter) and (is_lazy(tensor) or tensor.requires_grad is trainable):
        return tensor.requires_grad_(trainable)
    return nn.Parameter(tensor.detach(), requires_grad=trainable)


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
