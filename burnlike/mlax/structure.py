"""The structure of a module tree: its parameters by position, new trees that share them, and what makes trees equal.

These functions also run inside of torch.compile. There `id(module)` must not decide anything (the compiled code would
be bound to that object), and no `nn.Module.__init__` can run.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from ..errors import DuplicateParamIdError, ModuleTreeError
from ..module.param import Kind
from ..module.references import rebind
from ..module.registry import params
from ..module.shell import shell
from ..module.slots import meta_of, set_meta, stored_ids
from ..module.wrappers import unwrap
from .data import DataTree
from .holding import content, empty, kind_at, known_id
from .parameter import Parameter

M = TypeVar("M", bound=nn.Module)


class Place(NamedTuple):
    """An attribute that is a parameter, a hole, or not yet initialized.

    Attributes:
        position: the names from the root to it, as torch has them; the same in trees of one structure.
        owner: the module whose attribute it is.
        name: the attribute.
    """

    position: str
    owner: nn.Module
    name: str


def places(root: nn.Module) -> list[Place]:
    """The parameters of a tree, holes and uninitialized ones too, in order of declaration; tied ones at each place.

    Raises:
        ModuleTreeError: a module holds itself.
    """
    found: list[Place] = []
    _walk(root, "", found, [])
    return found


def _walk(module: nn.Module, prefix: str, found: list[Place], above: list[nn.Module]) -> None:
    module = unwrap(module)
    for other in above:
        if other is module:
            raise ModuleTreeError(
                f"'{prefix[:-1]}' holds itself; keep a reference upwards as burnlike.constant(module)"
            )
    above.append(module)
    parts = module.__dict__
    if "_burnlike_held" in parts:
        module.refresh()  # pyright: ignore[reportCallIssue]
    for name in _names(module):
        if name in parts["_parameters"]:
            if parts["_parameters"][name] is not None or awaits(module, name):
                found.append(Place(prefix + name, module, name))
        elif name in parts["_buffers"]:
            absent = parts["_buffers"][name] is None and not awaits(module, name)
            if not absent and name not in parts["_non_persistent_buffers_set"]:
                found.append(Place(prefix + name, module, name))
        elif (child := parts["_modules"][name]) is not None:
            if isinstance(child, DataTree):
                found.append(Place(prefix + name, module, name))
            else:
                _walk(child, f"{prefix}{name}.", found, above)
    above.pop()


def _names(module: nn.Module) -> list[str]:
    parts = module.__dict__
    names = {**parts["_parameters"], **parts["_buffers"], **parts["_modules"]}
    return [*(name for name in parts.get("_burnlike_fields", ()) if name in names)] + [
        name for name in names if name not in parts.get("_burnlike_fields", ())
    ]


def awaits(module: nn.Module, name: str) -> bool:
    """Whether a slot without a tensor is a hole or uninitialized, and not torch's mark of an absent parameter."""
    meta = meta_of(module, name)
    return meta.hole or meta.trainable is not None


def leaves(module: nn.Module, holes: bool = False) -> list[Parameter]:
    """Handles on the parameters of `module`, in order of declaration, each tied one and each shared module's once.

    Args:
        module: any `nn.Module`.
        holes: list what was filtered out too.

    Raises:
        DuplicateParamIdError: two different parameters carry one id.
        ModuleTreeError: a module holds itself.
    """
    return [handle for handle, _ in _grouped(module, holes)]


def by_position(module: nn.Module) -> dict[str, Parameter]:
    """Handles on all parameters and holes of `module`, by `Place.position`; a tied one at each of its places."""
    return {position: handle for handle, found in _grouped(module, True) for position in found}


def at_same_places(module: nn.Module, other: nn.Module, holes: bool = False) -> list[Parameter]:
    """The parameters of `other`, which has the structure of `module`, that are at the places of `leaves(module)`."""
    found = by_position(other)
    return [found[positions[0]] for _, positions in _grouped(module, holes)]


def _grouped(module: nn.Module, holes: bool) -> list[tuple[Parameter, list[str]]]:
    """Each distinct parameter with its positions."""
    groups: dict[tuple[bool, int], list[Place]] = {}
    found: list[tuple[Any, list[Place]]] = []
    for place in places(module):
        held = content(place.owner, place.name)
        if held is None:
            if holes or not meta_of(place.owner, place.name).hole:
                found.append((None, [place]))
            continue
        group = _known(held, groups, found)
        if group is None:
            group = []
            found.append((held, group))
            if not torch.compiler.is_compiling():
                groups[_key(held)] = group
        group.append(place)
    canonical = _canonical(module, found)
    handles = [_handle(group, canonical) for _, group in found]
    if not torch.compiler.is_compiling() and _same_id(handles):  # compiled code is not to depend on ids
        params(module)  # gives an id of its own to what was tied before a tool of torch replaced its tensor
        _check_ids(handles)
    positions = [[place.position for place in group] for _, group in found]
    return list(zip(handles, positions, strict=True))


def _known(
    held: Tensor | DataTree, groups: dict[tuple[bool, int], list[Place]], found: list[tuple[Any, list[Place]]]
) -> list[Place] | None:
    """The group of the places that hold the same."""
    if not torch.compiler.is_compiling():
        return groups.get(_key(held))
    for other, group in found:
        if type(other) is type(held) and _mark(other) is _mark(held):
            return group
    return None


def _mark(held: Tensor | DataTree) -> Any:
    """The object by which tied parameters know each other."""
    first = held.first() if isinstance(held, DataTree) else held
    return held if first is None else first


def _key(held: Tensor | DataTree) -> tuple[bool, int]:
    return isinstance(held, DataTree), id(_mark(held))


def _canonical(
    root: nn.Module, found: list[tuple[Any, list[Place]]]
) -> dict[tuple[nn.Module, str], tuple[str, tuple[nn.Module, str]]]:
    """Path and home of each tensor, where a tool of torch has put something into the tree that hides them."""
    hidden = any(
        place.owner._forward_pre_hooks or "parametrizations" in place.position for _, g in found for place in g
    )
    if not hidden:
        return {}
    return {
        owner: (path, param.home)
        for param in params(root)
        for owner, path in zip(param.owners, (param.path, *param.aliases), strict=True)
    }


def _handle(group: list[Place], canonical: dict[Any, tuple[str, tuple[nn.Module, str]]]) -> Parameter:
    owners = [(place.owner, place.name) for place in group]
    paths = [
        canonical[owner][0] if owner in canonical else place.position
        for owner, place in zip(owners, group, strict=True)
    ]
    home = canonical[owners[0]][1] if owners[0] in canonical else None
    return Parameter.at(tuple(dict.fromkeys(owners)), paths[0], tuple(paths[1:]), home)


def _same_id(handles: list[Parameter]) -> tuple[Parameter, Parameter] | None:
    """Two different parameters that carry one id."""
    known: dict[int, Parameter] = {}
    for handle in handles:
        if not handle.is_hole:
            other = known.setdefault(handle.id.value, handle)
            if other is not handle:
                return other, handle
    return None


def _check_ids(handles: list[Parameter]) -> None:
    found = _same_id(handles)
    if found is not None:
        raise DuplicateParamIdError(
            f"'{found[0].path}' and '{found[1].path}' are different parameters with one ParamId ({found[0].id}), as a"
            " copy of a layer has; copy it by clone(new_ids=True)"
        )


def view(module: M, state: Callable[[Tensor], Tensor] | None = None) -> M:
    """A new tree that shares tensors, hyperparameters and ids with `module`; what is assigned to one stays there.

    Args:
        module: any `nn.Module`; of wrappers (DDP, torch.compile) the inner module is taken.
        state: makes the new tree's buffers from those of `module`, each distinct one once; None shares them.

    Raises:
        ModuleTreeError: the tree is sharded by `fully_shard`.
    """

    def place(owner: nn.Module, name: str, kind: Kind, tensor: Tensor) -> Tensor:
        return tensor if state is None or kind == "weight" else state(tensor)

    return shell(module, place)


def settle(module: nn.Module, replaced: dict[Tensor, Tensor] | None = None) -> None:
    """Let the attributes that refer to tensors of `module` follow, after its slots were changed.

    Args:
        module: the tree.
        replaced: tensor -> the one that took its place.
    """
    for part in module.modules():
        if replaced:
            rebind(part, lambda value: replaced.get(value, value) if isinstance(value, Tensor) else value)
        if isinstance(part, nn.RNNBase):  # computes with a list of its own
            part.__dict__["_flat_weights"] = [part._parameters.get(name) for name in part._flat_weights_names]


def punch(handle: Parameter) -> None:
    """Make a hole of a parameter, at each of its places; its id stays."""
    param_id = known_id(*handle.home)
    for owner, name in handle.owners:
        kind = kind_at(owner, name)
        empty(owner, name, kind)
        if param_id is not None:
            stored_ids(owner)[name] = param_id
        set_meta(owner, name, None, trainable=None, name=None, hole=True, kind=kind)
