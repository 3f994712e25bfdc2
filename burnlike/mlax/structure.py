"""The structure of a module tree: its parameters by position, and new trees that share them.

These functions also run inside of torch.compile. There `id(module)` must not decide anything (the compiled code would
be bound to that object), and no `nn.Module.__init__` can run.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .._torch_compat.modules import FORWARD_PRE_HOOKS, refresh_rnn
from ..errors import DuplicateParamIdError, ModuleTreeError
from ..module.attributes.plain_attributes import refresh_container
from ..module.identity.field_metadata import meta_of, ordered_fields, set_meta
from ..module.torch_objects.wrappers import unwrap
from ..module.transforms.structural_copy import Copies, rebind_attributes, rebind_hooks
from ..module.tree.param import Kind
from ..module.tree.walk import params
from .data import DataTree, empty, kind_at, share_id
from .parameter import Parameter


class LeafSlot(NamedTuple):
    """An attribute that is a parameter, a hole, or not yet initialized: the last two have no `content`.

    `position` is the names from the root to it, as torch has them; the same in trees of one structure.
    """

    position: str
    owner: nn.Module
    name: str
    content: Tensor | DataTree | None


def places(root: nn.Module) -> list[LeafSlot]:
    """The parameters of a tree, holes and uninitialized ones too, in order of declaration; tied ones at each place."""
    slots: list[LeafSlot] = []
    _walk(unwrap(root), "", slots, [])
    return slots


def _walk(module: nn.Module, prefix: str, slots: list[LeafSlot], above: list[nn.Module]) -> None:
    for other in above:
        if other is module:
            raise ModuleTreeError(
                f"'{prefix[:-1]}' holds itself; keep a reference upwards as burnlike.constant(module)"
            )
    parts = module.__dict__
    refresh_container(module)
    parameters, buffers, modules = parts["_parameters"], parts["_buffers"], parts["_modules"]
    # In order of declaration where that is known; names of other attributes are passed over.
    for name in {**ordered_fields(module), **parameters, **buffers, **modules}:
        if name in parameters:
            tensor = parameters[name]
            if tensor is not None or awaits(module, name):
                slots.append(LeafSlot(prefix + name, module, name, tensor))
        elif name in modules:
            child = modules[name]
            if isinstance(child, DataTree):
                slots.append(LeafSlot(prefix + name, module, name, child))
            elif child is not None:
                above.append(module)
                _walk(unwrap(child), f"{prefix}{name}.", slots, above)
                above.pop()
        elif name in buffers and name not in parts["_non_persistent_buffers_set"]:
            tensor = buffers[name]
            if tensor is not None or awaits(module, name):
                slots.append(LeafSlot(prefix + name, module, name, tensor))


def awaits(module: nn.Module, name: str) -> bool:
    """True if a slot without a tensor is a hole or uninitialized, and not torch's mark of an absent parameter."""
    meta = meta_of(module, name)
    return meta.hole or meta.trainable is not None


def leaves(module: nn.Module, holes: bool = False) -> list[Parameter]:
    """Handles on the parameters of `module`, in order of declaration, each tied one and each shared module's once.

    With `holes`, what was filtered out too.

    Raises:
        DuplicateParamIdError: two different parameters carry one id.
        ModuleTreeError: a module holds itself.
    """
    return _handles(module, _grouped(module, holes))


def by_position(module: nn.Module) -> dict[str, Parameter]:
    """Handles on all parameters and holes of `module`, by `LeafSlot.position`; a tied one at each of its places."""
    groups = _grouped(module, True)
    pairs = zip(_handles(module, groups), groups, strict=True)
    return {place.position: handle for handle, group in pairs for place in group}


def at_same_places(module: nn.Module, other: nn.Module, holes: bool = False) -> list[Parameter]:
    """The parameters of `other`, which has the structure of `module`, that are at the places of `leaves(module)`."""
    slots = by_position(other)
    return [slots[group[0].position] for group in _grouped(module, holes)]


def _grouped(module: nn.Module, holes: bool) -> list[list[LeafSlot]]:
    """The places of each distinct parameter."""
    compiling = torch.compiler.is_compiling()
    groups: list[list[LeafSlot]] = []
    of_tensors: dict[Any, list[LeafSlot]] = {}
    of_trees: dict[Any, list[LeafSlot]] = {}
    for place in places(module):
        content = place.content
        if content is None:
            if holes or not meta_of(place.owner, place.name).hole:
                groups.append([place])
            continue
        seen = of_tensors
        if isinstance(content, DataTree):
            seen, content = of_trees, content.mark()
        key = content if compiling else id(content)
        if key in seen:
            seen[key].append(place)
        else:
            seen[key] = group = [place]
            groups.append(group)
    return groups


def _handles(root: nn.Module, groups: list[list[LeafSlot]]) -> list[Parameter]:
    canonical = _canonical(root, groups)
    handles = []
    for group in groups:
        first = group[0]
        if len(group) == 1 and not canonical:
            handles.append(Parameter.at(((first.owner, first.name),), first.position))
            continue
        owners = [(place.owner, place.name) for place in group]
        homes = [canonical.get(owner, (place.position, None)) for owner, place in zip(owners, group, strict=True)]
        paths = tuple(path for path, _ in homes)
        handles.append(Parameter.at(tuple(dict.fromkeys(owners)), paths[0], paths[1:], homes[0][1]))
    if not torch.compiler.is_compiling() and _same_id(handles):  # compiled code is not to depend on ids
        params(root)  # gives an id of its own to what was tied before a tool of torch replaced its tensor
        if pair := _same_id(handles):
            raise DuplicateParamIdError(
                f"'{pair[0].path}' and '{pair[1].path}' are different parameters with one ParamId ({pair[0].id}), as"
                " a copy of a layer has; copy it by clone(new_ids=True)"
            )
    return handles


def _canonical(
    root: nn.Module, groups: list[list[LeafSlot]]
) -> dict[tuple[nn.Module, str], tuple[str, tuple[nn.Module, str]]]:
    """Path and home of each tensor, where a tool of torch has put something into the tree that hides them."""
    owner = None
    for group in groups:
        for place in group:
            if place.owner is owner:
                continue
            owner = place.owner
            if owner.__dict__[FORWARD_PRE_HOOKS] or "parametrizations" in place.position:
                return {
                    owner: (path, param.home)
                    for param in params(root)
                    for owner, path in zip(param.owners, (param.path, *param.aliases), strict=True)
                }
    return {}


def _same_id(handles: list[Parameter]) -> tuple[Parameter, Parameter] | None:
    """Two different parameters that carry one id."""
    by_id: dict[int, Parameter] = {}
    for handle in handles:
        if not handle.is_hole:
            other = by_id.setdefault(handle.id.value, handle)
            if other is not handle:
                return other, handle
    return None


def view(module: nn.Module, state: Callable[[Tensor], Tensor] | None = None) -> Copies:
    """A new tree that shares tensors, hyperparameters and ids with `module`; what is assigned to one stays there.

    Of wrappers (DDP, torch.compile) the inner module is taken. `state` makes the new tree's buffers, each distinct one
    once; None shares them. It is a ModuleTreeError if the tree is sharded by `fully_shard`.
    """

    def place(owner: nn.Module, name: str, kind: Kind, tensor: Tensor) -> Tensor:
        return tensor if state is None or kind == "weight" else state(tensor)

    return Copies(module, place)


def counterpart(handle: Parameter, copies: Copies) -> Parameter:
    """The handle on what stands in a new tree for a parameter of the old one."""
    owners = tuple((copies.of(owner), name) for owner, name in handle.owners)
    home = owners[0] if handle.home == handle.owners[0] else (copies.of(handle.home[0]), handle.home[1])
    return Parameter.at(owners, handle.path, handle.aliases, home)


def update_references(parts: Iterable[nn.Module], replaced: dict[Tensor, Tensor] | None = None) -> None:
    """Let the attributes of `parts` that refer to tensors of their tree follow; `replaced` maps old tensors to new."""
    for part in parts:
        if replaced:
            for rebind in (rebind_attributes, rebind_hooks):
                rebind(part, lambda value: replaced.get(value, value) if isinstance(value, Tensor) else value)
        if isinstance(part, nn.RNNBase):  # computes with a list of its own
            refresh_rnn(part)


def punch(handle: Parameter, copies: Copies) -> None:
    """Make holes in a new tree in all places of a parameter of the old one; its id stays."""
    for old, name in handle.owners:
        owner, kind = copies.of(old), kind_at(old, name)
        empty(owner, name, kind)
        share_id(*handle.home, owner, name)
        set_meta(owner, name, trainable=None, name=None, hole=True, kind=kind)
