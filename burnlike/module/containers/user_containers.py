"""Users' own containers of modules, and named tuples, as parts of a module tree; and what is assigned to a Module."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import wraps
from typing import Any, Protocol, Self, runtime_checkable

from torch import Tensor, nn

from ..._torch_compat.pytree import tree_leaves
from ...errors import ModuleTreeError
from ..attributes.plain_attributes import COLLECTIONS, DEEPEST, USER_CONTAINER, Above, MarkedConstant, items_of
from ..identity.field_metadata import remember_field
from ..module import Module
from ..tree.param import Param
from .sequences import ModuleDict, ModuleTuple, ModuleVec, check_name


@runtime_checkable
class ModuleContainer(Protocol):
    """A user's container type: these two methods make it a part of visit, map, paths and records.

    It is no `nn.Module`. When it is assigned to a `burnlike.Module`, `module.name` stays the container; what it holds
    is registered beside it, where torch looks. Both stay the same: what the program changes in the container is seen by
    the next `parameters()`, `state_dict()` or traversal, and where a tool replaces a module or parameter,
    `module.name` becomes what `with_module_children` gives. Tools of torch that look up each tensor's path attribute by
    attribute, as `torch.func.functional_call` does, find no module there, and say so; the functions of `burnlike.func`
    work.
    """

    def module_children(self) -> Mapping[str, Any]:
        """The content by name: modules, parameters, containers or lists, tuples and dicts of them; or constants."""
        ...

    def with_module_children(self, children: Mapping[str, Any]) -> Self:
        """A container like this one with `children` instead, under the same names."""
        ...


def looks_like_container(kind: type) -> bool:
    return hasattr(kind, "with_module_children") or hasattr(kind, "module_children") or _is_named(kind)


def is_container(value: Any) -> bool:
    """True for a user's container or a named tuple."""
    return looks_like_container(type(value)) and not isinstance(value, nn.Module)


def _is_named(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_replace")


def _after_refresh(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def refreshed(self: "ContainerModule", *args: Any, **options: Any) -> Any:
        self.refresh()
        return method(self, *args, **options)

    return refreshed


class ContainerModule(Module):
    """The module that stands for a user's container in the tree: what the container holds is registered here for torch.

    `refresh` compares both with what they held when it was last called. What the program has changed in the container
    since then is registered here. Where a tool has registered something else here, a container that holds that takes
    the container's place. Each list, tuple and dict in a user's container has a module of this kind, too.
    """

    _burnlike_upward = ("_above",)
    named_children = _after_refresh(Module.named_children)
    named_modules = _after_refresh(Module.named_modules)
    state_dict = _after_refresh(Module.state_dict)
    _load_from_state_dict = _after_refresh(Module._load_from_state_dict)

    def __init__(self, container: Any, where: str) -> None:
        super().__init__()
        missing = [name for name in _METHODS if not hasattr(type(container), name)]
        if missing and not _is_named(type(container)) and _built_in(container) is None:
            raise ModuleTreeError(
                f"{where}: a container of modules has the methods {' and '.join(_METHODS)}; {type(container).__name__}"
                f" lacks {missing[0]}"
            )
        kind = _KINDS.get(_built_in(container), f"Struct:{type(container).__name__}")
        # No plain dict is to be there: its tensors would be moved and copied with the module.
        parts = {"_burnlike_container": kind, USER_CONTAINER: container, "_above": None, "_known": OrderedDict()}
        self.__dict__.update(parts)
        self._refresh()

    @property
    def container(self) -> Any:
        """The user's container, or the list, tuple or dict in one."""
        return self.__dict__[USER_CONTAINER]

    def attach(self, owner: nn.Module, name: str) -> None:
        """Note whose attribute this module is; the attribute shows the container."""
        self.__dict__["_above"] = Above(owner)
        if not isinstance(owner, ContainerModule):
            owner.__dict__[name] = self.container

    def refresh(self) -> None:
        """Bring the container and what is registered here together, with those of the containers around this one."""
        owner = self._owner()
        if isinstance(owner, ContainerModule):
            owner.refresh()
        else:
            self._refresh()

    def rebuild(self) -> None:
        """Put a container that holds what is registered here in place of the present one."""
        children = {name: self._registered(name) for name in self.__dict__["_known"]}
        container = _with_children(self.container, children)
        now, parts = _children(container), [*self._parameters, *self._buffers, *self._modules]
        # Compared by what lies in them: the container may well put lists of its own around the same modules.
        if _leaves(map(now.get, parts)) != _leaves(map(children.get, parts)):
            raise ModuleTreeError(
                f"{type(container).__name__}.with_module_children gave a container whose module_children are not those"
                " it was given; it must hold what it is given, under the same names"
            )
        self.__dict__.update({USER_CONTAINER: container, "_known": OrderedDict(children)})
        owner = self._owner()
        if owner is not None and not isinstance(owner, ContainerModule):
            owner.__dict__.update({name: container for name, child in owner._modules.items() if child is self})

    def _owner(self) -> nn.Module | None:
        """The module whose attribute this one is; None also for a copy of this one alone."""
        above = self.__dict__["_above"]
        owner = None if above is None else above()
        return owner if owner is not None and any(child is self for child in owner._modules.values()) else None

    def _refresh(self) -> None:
        noted, children = self.__dict__["_known"], _children(self.container)
        for name in [name for name in noted if name not in children]:
            self._forget(name)
        for name, child in children.items():
            if not self._knows(name, child):
                self._register(name, child)
        if any(self._registered(name) is not child for name, child in noted.items()):
            self.rebuild()

    def _knows(self, name: str, child: Any) -> bool:
        """True if `child` is what the container held as `name`, or a list, tuple or dict in place of one."""
        noted, inner = self.__dict__["_known"], self._modules.get(name)
        if not isinstance(inner, ContainerModule):
            return name in noted and noted[name] is child
        if child is not inner.container and _built_in(child) is not (_built_in(inner.container) or self):
            return False
        inner.__dict__[USER_CONTAINER] = noted[name] = child
        inner._refresh()
        return True

    def _registered(self, name: str) -> Any:
        """The part registered here in place of a child; a removed name is restored."""
        part = getattr(self, name, self.__dict__["_known"][name])
        return part.container if isinstance(part, ContainerModule) else part

    def _register(self, name: str, child: Any) -> None:
        noted, where = self.__dict__["_known"], f"{type(self.container).__name__}.module_children"
        if isinstance(child, MarkedConstant):
            raise ModuleTreeError(f"{where}: '{name}' is only referred to: leave it out, and keep it in the container")
        if is_part(child):
            if name not in noted:
                check_name(self, name, where)
            elif self._parameters.get(name) is not None and not isinstance(child, nn.Parameter):
                self._forget(name)
            several = is_container(child) or _built_in(child)
            super().__setattr__(name, ContainerModule(child, f"{where}: '{name}'") if several else child)
        elif name in noted or (isinstance(name, str) and not hasattr(self, name)):
            self._forget(name)
            self.__dict__[name] = child
            remember_field(self, name)
        else:  # a constant whose name is taken
            return
        noted[name] = child

    def _forget(self, name: str) -> None:
        self.__dict__["_known"].pop(name, None)
        if hasattr(self, name):
            super().__delattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in self.__dict__.get("_known", ()):
            self.refresh()

    def __delattr__(self, name: str) -> None:
        raise ModuleTreeError(
            f"'{name}' belongs to a {type(self.container).__name__}, which would go on to use it as it is: put the"
            " parameter into a module"
        )

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        super()._apply(fn, recurse)
        self.refresh()
        return self


_METHODS = ("module_children", "with_module_children")
_KINDS: dict[type | None, str] = {list: "Vec", tuple: "Tuple", dict: "Dict"}


def _built_in(value: Any) -> type | None:
    """The class of Python's containers that `value` is of; None for a user's, a named tuple, and anything else."""
    kinds = () if is_container(value) else (list, tuple, dict)
    return next((kind for kind in kinds if isinstance(value, kind)), None)


def _leaves(values: Iterable[Any]) -> list[int]:
    """The addresses of what is in lists, tuples and dicts, in order."""
    return list(map(id, tree_leaves([*values], is_leaf=lambda value: isinstance(value, nn.Module))))


def _children(container: Any) -> Mapping[str, Any]:
    kind = _built_in(container)
    if kind is not None:
        return container if kind is dict else {str(index): item for index, item in enumerate(container)}
    if not hasattr(type(container), "module_children"):
        return container._asdict()
    children = container.module_children()
    if isinstance(children, Mapping):
        return children
    raise ModuleTreeError(
        f"{type(container).__name__}.module_children gave {type(children).__name__}: expected a mapping of names to"
        " what the container holds"
    )


def _with_children(container: Any, changed: dict[str, Any]) -> Any:
    children = {**_children(container), **changed}
    kind = _built_in(container)
    if kind is not None:
        return kind(children if kind is dict else children.values())
    if not hasattr(type(container), "with_module_children"):
        return container._replace(**children)
    new = container.with_module_children(children)
    if isinstance(new, type(container)):
        return new
    raise ModuleTreeError(
        f"{type(container).__name__}.with_module_children gave {type(new).__name__}: expected another"
        f" {type(container).__name__}, which holds the children it is given"
    )


_PARTS = (nn.Module, nn.Parameter, nn.Buffer, Param, MarkedConstant)
_HOLDERS = (nn.Module, nn.Parameter, Param, *COLLECTIONS)
_LOOK_INTO = (nn.Module, Tensor, Param, MarkedConstant, list, tuple, dict)


def as_module(value: Any, where: str, current: Any = None) -> Any:
    """The module that `value` becomes as a field, or `value` itself if it holds no part of a tree.

    An empty list is one where `current`, what the field holds, is a ModuleVec. `where` is for errors.
    """
    if not holds_part(value):
        kind = ModuleDict if isinstance(value, dict) else ModuleTuple if isinstance(value, list | tuple) else None
        if kind is None or value or not isinstance(current, kind):
            return value
    if is_container(value):
        return ContainerModule(value, where)
    if isinstance(value, dict):
        return ModuleDict(value, where=where)
    return ModuleTuple(value) if isinstance(value, tuple) else ModuleVec(value)


def holds_part(value: Any, around: tuple[Any, ...] = ()) -> bool:
    """True for a container with a part of a module tree in it; `around` are those it lies in."""
    if any(outer is value for outer in around):  # a constant may hold itself
        return False
    if is_container(value) and not isinstance(value, tuple):
        return True
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    # Each type once, so that long lists of numbers or texts cost little.
    kinds = set(map(type, items))
    return any(issubclass(kind, _LOOK_INTO) or looks_like_container(kind) for kind in kinds) and any(
        is_part(item, (*around, value)) for item in items
    )


def check_hidden_parts(value: Any, where: str, owner: nn.Module) -> None:
    """Raise ModuleTreeError if a deque, set, namespace or dataclass has a part that is in no other place of `owner`."""
    hidden = [*_hidden_parts(value)]
    if not hidden:
        return
    modules = [*owner.modules()] if "_modules" in owner.__dict__ else [owner]
    in_tree = {id(part) for module in modules for part in (module, *module.__dict__.get("_parameters", {}).values())}
    for part, holder in hidden:
        if id(part) not in in_tree:
            raise ModuleTreeError(
                f"{where}: a {type(holder).__name__} holds a {type(part).__name__}, which would be neither trained nor"
                " saved there. Use a list, tuple or dict, or attributes of the module; a class of your own can be a"
                f" burnlike.module.ModuleContainer. If it only refers to the {type(part).__name__}, assign"
                " burnlike.constant(...)"
            )


def _hidden_parts(value: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    """The parts of a module tree in a value that is a constant, and what each lies in."""
    items = items_of(value) if depth < DEEPEST else ()
    # Each type once, so that long lists of numbers or texts cost little.
    kinds = {kind for kind in set(map(type, items)) if issubclass(kind, _HOLDERS) or is_dataclass(kind)}
    for item in items if kinds else ():
        if isinstance(item, Param):
            yield item.tensor, value
        elif isinstance(item, nn.Module | nn.Parameter):
            yield item, value
        elif type(item) in kinds:
            yield from _hidden_parts(item, depth + 1)


def is_part(value: Any, around: tuple[Any, ...] = ()) -> bool:
    """True for a part of a module tree, or a container that holds one."""
    return isinstance(value, _PARTS) or holds_part(value, around)
