"""The static part of a module, its class and fields that are not parameters or modules, and whether two trees agree.

Also the structure of a tree: its parameters by position, and new trees that share them. The functions also run inside
of torch.compile. There `id(module)` must not decide anything (the compiled code would be bound to that object), and no
`nn.Module.__init__` can run.
"""

import math
from collections.abc import Callable, Iterable
from functools import partial
from types import MethodType
from typing import Any, NamedTuple
from weakref import ReferenceType

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from .._torch_compat.modules import FORWARD_PRE_HOOKS, RNN_NOTES, refresh_rnn
from ..errors import DuplicateParamIdError, ModuleTreeError, StructureMismatchError
from ..module.attributes.plain_attributes import Above, plain_names, refresh_container
from ..module.containers.sequences import ModuleTuple
from ..module.identity.field_metadata import meta_of, ordered_fields, set_meta
from ..module.torch_objects.wrappers import own_class, unwrap
from ..module.transforms.structural_copy import Copies, rebind_attributes, rebind_hooks
from ..module.tree.param import Kind
from ..module.tree.walk import params
from ..tensor.core.base import TensorBase
from .data import DataTree, empty, kind_at, share_id
from .guards import without_guard
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
        # Compiled code must not depend on what ids are; outside, they are faster than the hash of a tensor.
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


# What containers note about themselves, parametrized tensors about their base, and a recurrent layer of its parameters.
_NOTES = {*("_burnlike_user_container", "_above", "_known", "_count", "_keys"), *("_base_name", *RNN_NOTES)}


def hyperparameters(module: nn.Module) -> dict[str, Any]:
    """The attributes of `module` that are neither parameters nor modules nor torch's own."""
    parts = without_guard(module.__dict__)
    return {name: parts[name] for name in plain_names(parts) if name not in _NOTES}


def own_containers(parts: Iterable[nn.Module]) -> None:
    """Give the modules of a new tree copies of their lists, dicts and sets, so that changes stay within."""
    for part in parts:
        for name, value in hyperparameters(part).items():
            if type(value) in (list, dict, set):
                part.__dict__[name] = _copied(value)


def _copied(value: Any) -> Any:
    """A copy of the lists, dicts and sets in `value`, of what they hold not."""
    if type(value) is list:
        return [_copied(item) for item in value]
    if type(value) is dict:
        return {key: _copied(item) for key, item in value.items()}
    return set(value) if type(value) is set else value


def static_key(module: nn.Module) -> tuple[Any, ...]:
    """The static part of a tree as a key: equal for modules that a function compiled for one of them also fits.

    It has the classes, the hyperparameters with their types, and of each parameter trainability, label and kind; no
    values, and no plain tensors. It is a TypeError that names it if a hyperparameter can't be hashed.
    """
    flags = [(place.position, Parameter.at(((place.owner, place.name),))) for place in places(module)]
    return (
        _static(module, ""),
        tuple(sorted((position, it.trainable, it.name or "", it.kind) for position, it in flags)),
    )


def _static(module: nn.Module, prefix: str) -> tuple[Any, ...]:
    values = []
    for name, value in sorted(hyperparameters(module).items()):
        if not isinstance(value, Tensor):
            values.append((name, _hashable(value, prefix + name)))
    children = tuple(
        (name, child.static_key() if isinstance(child, DataTree) else _static(child, f"{prefix}{name}."))
        for name, child in module.named_children()
    )
    return own_class(module), tuple(values), children


def _hashable(value: Any, path: str) -> tuple[type, Any]:
    if type(value) is tuple:
        return tuple, tuple(_hashable(item, path) for item in value)
    if isinstance(value, float) and math.isnan(value):
        return float, "nan"
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"hyperparameter '{path}' is a {type(value).__name__}, which can't be part of a key: use a tuple or another"
            " hashable value"
        ) from None
    return type(value), value


def check_same_structure(a: nn.Module, b: nn.Module) -> None:
    """Refuse trees that can't be put or mapped together.

    A hyperparameter that refers to a part of `a` is equal to one that refers to the part of `b` in the same place.

    Raises:
        StructureMismatchError: they differ in class, fields or hyperparameters; the message has path and both values.
        TypeError: `b` is no module.
    """
    if not isinstance(b, nn.Module):
        raise TypeError(f"expected a module of the structure of {type(a).__name__}, got {type(b).__name__}")
    comparison = _Comparison()
    comparison.walk(a, b, "")
    for path, mine, yours in comparison.differing:
        if not comparison.same(mine, yours):
            raise _mismatch(path, mine, yours)


class _Comparison:
    """One comparison of two trees under way.

    Attributes:
        differing: path and values of the hyperparameters that are not the same object.
    """

    def __init__(self) -> None:
        self.differing: list[tuple[str, Any, Any]] = []
        self._twins: dict[object, nn.Module] = {}  # part of the first tree -> that of the second
        self._compiling = torch.compiler.is_compiling()  # which guards what `id` is taken of

    def walk(self, a: nn.Module, b: nn.Module, path: str) -> None:
        a, b = unwrap(a), unwrap(b)
        if a is b:
            return
        self._twins[a if self._compiling else id(a)] = b
        if type(a) is not type(b) and own_class(a) is not own_class(b):
            raise _mismatch(path, own_class(a), own_class(b))
        if isinstance(a, ModuleTuple) and isinstance(b, ModuleTuple) and len(a) != len(b):
            raise _mismatch(path, _Words(f"{len(a)} items"), _Words(f"{len(b)} items"))
        prefix = f"{path}." if path else ""
        fields, others = _fields(a), _fields(b)
        for name in fields if fields.keys() == others.keys() else {**fields, **others}:
            mine, yours = fields.get(name, _NOTHING), others.get(name, _NOTHING)
            if mine is yours:
                continue
            if isinstance(mine, _Child) and isinstance(yours, _Child):
                self.walk(mine.module, yours.module, prefix + name)
            elif isinstance(mine, _OTHERS) or isinstance(yours, _OTHERS):
                raise _mismatch(prefix + name, mine, yours)
            else:
                self.differing.append((prefix + name, mine, yours))

    def same(self, a: Any, b: Any) -> bool:
        """True if two hyperparameters are equal, of one type: 1, 1.0 and True differ, and an object equals itself."""
        if a is b:
            return True
        if type(a) is not type(b):
            return False
        if isinstance(a, nn.Module):
            return self._twins.get(a if self._compiling else id(a)) is b
        if isinstance(a, nn.Parameter | RemovableHandle):  # of the module, or of another; of a hook that each has
            return True
        if isinstance(a, Above | ReferenceType):
            return self.same(a(), b())
        if isinstance(a, MethodType):
            return a.__func__ is b.__func__ and self.same(a.__self__, b.__self__)
        if isinstance(a, partial):
            return self.same((a.func, a.args, a.keywords), (b.func, b.args, b.keywords))
        if isinstance(a, Tensor):
            if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device:
                return False
            return self._compiling or a.is_meta or torch.equal(a, b)
        if isinstance(a, list | tuple):
            return len(a) == len(b) and all(self.same(x, y) for x, y in zip(a, b, strict=True))
        if isinstance(a, dict):
            return len(a) == len(b) and all(key in b and self.same(value, b[key]) for key, value in a.items())
        if type(a).__module__ == "numpy":
            return a.shape == b.shape and a.dtype == b.dtype and bool((a == b).all())
        if isinstance(a, TensorBase):
            return self.same(a.inner, b.inner)
        try:
            return bool(a == b)
        except (TypeError, ValueError, RuntimeError):  # values that can't be compared, as arrays of some libraries
            return False


class _Child(NamedTuple):
    """A field that is a module."""

    module: nn.Module

    def __repr__(self) -> str:
        return f"a {type(self.module).__name__}"


class _Words(NamedTuple):
    """A phrase for a field that has no value to show."""

    words: str

    def __repr__(self) -> str:
        return self.words


_HELD, _NOTHING = _Words("a parameter"), _Words("no such field")
_OTHERS = (_Child, _Words)


def _fields(module: nn.Module) -> dict[str, Any]:
    fields: dict[str, Any] = hyperparameters(module)
    for name, child in module._modules.items():
        fields[name] = None if child is None else _HELD if isinstance(child, DataTree) else _Child(child)
    for group in (module._parameters, module._buffers):
        for name, tensor in group.items():
            fields[name] = _HELD if tensor is not None or awaits(module, name) else None
    return fields


def _mismatch(path: str, a: Any, b: Any) -> StructureMismatchError:
    place = f"'{path}'" if path else "the root"
    return StructureMismatchError(f"the modules differ at {place}: {_shown(a)} and {_shown(b)}; nothing was made")


def _shown(value: Any) -> str:
    text = value.__name__ if isinstance(value, type) else repr(value)
    return text if len(text) < 80 else f"{text[:77]}..."
