"""Users' own containers of modules, and named tuples, as parts of a module tree."""

from collections.abc import Mapping
from typing import Any, Protocol, Self, runtime_checkable

from torch import Tensor, nn

from ...errors import ModuleTreeError
from ..identity.constants import Above, MarkedConstant
from ..identity.field_metadata import remember_field, tell_holder
from ..module import Module
from .mappings import ModuleDict, check_name
from .sequences import ModuleTuple, ModuleVec


@runtime_checkable
class ModuleContainer(Protocol):
    """A container type of a user's own: with these two methods it joins visit, map, paths and records.

    It is no `nn.Module`. When it is assigned to a `burnlike.Module`, `module.name` stays the container; what it holds
    is registered beside it, where torch looks. Both stay the same: what the program changes in the container is seen by
    the next `parameters()`, `state_dict()` or traversal, and where a tool replaces a module or parameter,
    `module.name` becomes what `with_module_children` gives. Tools of torch that look up each tensor's path attribute by
    attribute, as `torch.func.functional_call` does, find no module there, and say so; the functions of `burnlike.func`
    work.
    """

    def module_children(self) -> Mapping[str, Any]:
        """What it holds, by name: modules, parameters, containers or lists, tuples and dicts of them; or constants."""
        ...

    def with_module_children(self, children: Mapping[str, Any]) -> Self:
        """A container like this one that holds `children` instead, under the same names."""
        ...


def looks_like_container(kind: type) -> bool:
    """Whether objects of this class are users' containers."""
    return hasattr(kind, "with_module_children") or hasattr(kind, "module_children") or _is_named(kind)


def is_container(value: Any) -> bool:
    """Whether `value` is a user's container or a named tuple."""
    return looks_like_container(type(value)) and not isinstance(value, nn.Module)


def _is_named(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_replace")


class Held(Module):
    """The part of a tree that stands for a user's container; what it holds is registered here for torch."""

    _burnlike_upward = ("_holder",)

    def __init__(self, container: Any, where: str) -> None:
        super().__init__()
        missing = [name for name in _METHODS if not hasattr(type(container), name)]
        if missing and not _is_named(type(container)):
            raise ModuleTreeError(
                f"{where}: a container of modules has the methods {' and '.join(_METHODS)}; {type(container).__name__}"
                f" lacks {missing[0]}"
            )
        self.__dict__.update(
            _burnlike_container=f"Struct:{type(container).__name__}",
            _burnlike_held=container,
            _holder=None,
            _holder_name="",
            _synced={},
            _shown={},
        )
        self._adopt(self._parts_of(container))

    def attach(self, owner: nn.Module, name: str) -> None:
        """Note whose attribute shows the container."""
        self.__dict__.update(_holder=Above(owner), _holder_name=name)
        owner.__dict__[name] = self.__dict__["_burnlike_held"]
        self.refresh()

    def refresh(self) -> None:
        """Take over what the program changed in the container, then let the container have what torch changed here."""
        parts = self.__dict__
        now = self._parts_of(parts["_burnlike_held"])
        if not _same(parts["_synced"], now):
            self._adopt(now)
        if not _same(parts["_synced"], self._registered()):
            self.rebuild()
            tell_holder(self._owner())

    def rebuild(self) -> None:
        """Put a container that holds what is registered here in the place of the present one."""
        parts = self.__dict__
        registered = self._registered()
        container = _with_children(parts["_burnlike_held"], registered)
        now = self._parts_of(container)
        if not _same(now, registered):
            raise ModuleTreeError(
                f"{type(container).__name__}.with_module_children gave a container whose module_children are not those"
                " it was given; it must hold what it is given, under the same names"
            )
        parts.update(_burnlike_held=container, _synced=now)
        owner, name = self._owner(), parts["_holder_name"]
        if owner is not None and owner._modules.get(name) is self:
            owner.__dict__[name] = container

    def _owner(self) -> nn.Module | None:
        """Whose attribute shows the container."""
        above = self.__dict__["_holder"]
        return None if above is None else above()

    def _parts_of(self, container: Any) -> dict[str, Any]:
        """The children of `container` that are parts of a tree, in lists of their own; the others become constants."""
        from .assignment import is_part

        known = self.__dict__["_synced"]
        found, constants = {}, {}
        for name, child in _children(container).items():
            remember_field(self, name)
            part = is_part(child) or (name in known and _stands_for_part(child))
            (found if part else constants)[name] = _snapshot(child) if part else child
        self._show(constants)
        return found

    def _show(self, constants: dict[str, Any]) -> None:
        """Have the container's constants as attributes, where the names are free."""
        parts = self.__dict__
        shown = parts["_shown"]
        for name in [name for name in shown if name not in constants]:
            del parts[name]
            del shown[name]
        for name, value in constants.items():
            if name in shown or (isinstance(name, str) and not hasattr(self, name)):
                shown[name] = None
                parts[name] = value

    def _registered(self) -> dict[str, Any]:
        """What is registered here in the place of each part; a name that a tool took away is as it was."""
        return {name: _item(self, name, before) for name, before in self.__dict__["_synced"].items()}

    def _adopt(self, now: dict[str, Any]) -> None:
        synced = self.__dict__["_synced"]
        for name in [name for name in synced if name not in now]:
            super().__delattr__(name)
            del synced[name]
        for name, child in now.items():
            if name not in synced:
                check_name(self, name, f"{type(self.__dict__['_burnlike_held']).__name__}.module_children")
            if name not in synced or not _same(synced[name], child):
                self._take(name, child)
        self.__dict__["_synced"] = now

    def _take(self, name: str, child: Any) -> None:
        present = self._modules.get(name)
        if type(present) is ModuleVec and isinstance(child, list) and "_burnlike_held_by" in present.__dict__:
            del present.__dict__["_burnlike_held_by"]
            present[:] = child
        elif self._parameters.get(name) is not None and not isinstance(child, nn.Parameter):
            super().__delattr__(name)
            super().__setattr__(name, child)
        else:
            super().__setattr__(name, child)
        self._mark_inside(self._modules.get(name), child)

    def _mark_inside(self, module: nn.Module | None, child: Any) -> None:
        """Let the module that was made for a user's list, if it is one, know whose inside it is."""
        if isinstance(module, ModuleTuple | ModuleDict) and module is not child:
            module.__dict__["_burnlike_held_by"] = Above(self)
            for name, item in zip(module._names(), child.values() if isinstance(child, dict) else child, strict=True):
                self._mark_inside(module._modules.get(name), item)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in self.__dict__.get("_synced", ()):
            self.refresh()

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        super()._apply(fn, recurse)
        self.refresh()
        return self

    def named_children(self) -> Any:
        """As `nn.Module.named_children`, of what the container holds now."""
        self.refresh()
        return super().named_children()

    def named_modules(self, *args: Any, **options: Any) -> Any:
        """As `nn.Module.named_modules`, of what the container holds now."""
        self.refresh()
        return super().named_modules(*args, **options)

    def state_dict(self, *args: Any, **options: Any) -> Any:
        """As `nn.Module.state_dict`, of what the container holds now."""
        self.refresh()
        return super().state_dict(*args, **options)

    def _load_from_state_dict(self, *args: Any, **options: Any) -> None:
        self.refresh()
        super()._load_from_state_dict(*args, **options)


_METHODS = ("module_children", "with_module_children")


def _children(container: Any) -> Mapping[str, Any]:
    if hasattr(type(container), "module_children"):
        children = container.module_children()
        if isinstance(children, Mapping):
            return children
        raise ModuleTreeError(
            f"{type(container).__name__}.module_children gave {type(children).__name__}: expected a mapping of names to"
            " what the container holds"
        )
    return container._asdict()


def _with_children(container: Any, changed: dict[str, Any]) -> Any:
    children = {**_children(container), **changed}
    if not hasattr(type(container), "with_module_children"):
        return container._replace(**children)
    new = container.with_module_children(children)
    if isinstance(new, type(container)):
        return new
    raise ModuleTreeError(
        f"{type(container).__name__}.with_module_children gave {type(new).__name__}: expected another"
        f" {type(container).__name__}, which holds the children it is given"
    )


def _stands_for_part(value: Any) -> bool:
    """Whether `value` may be in the place of a part: a hole, or the tensor that a transform has for a parameter."""
    if isinstance(value, list | tuple):
        return any(map(_stands_for_part, value))
    if isinstance(value, dict):
        return any(map(_stands_for_part, value.values()))
    return value is None or isinstance(value, Tensor)


def _snapshot(value: Any) -> Any:
    """`value`, with lists, tuples and dicts of its own, which no one changes."""
    if isinstance(value, list | tuple) and not _is_named(type(value)):
        return (list if isinstance(value, list) else tuple)(map(_snapshot, value))
    if isinstance(value, dict):
        return {name: _snapshot(item) for name, item in value.items()}
    return value


def _same(before: Any, now: Any) -> bool:
    """Whether two snapshots hold the same objects in the same places."""
    if type(before) is not type(now):
        return False
    if isinstance(now, list | tuple) and not _is_named(type(now)):
        return len(before) == len(now) and all(map(_same, before, now))
    if isinstance(now, dict):
        return before.keys() == now.keys() and all(map(_same, before.values(), map(now.__getitem__, before)))
    if isinstance(now, MarkedConstant):
        return before.value is now.value
    return before is now or (isinstance(now, bool | int | float | str) and before == now)


def _item(owner: nn.Module, name: str, before: Any = None) -> Any:
    """What `owner` holds under `name`, in the form in which the user's container holds it."""
    part = owner._modules.get(name)
    if part is None:
        for group in (owner._parameters, owner._buffers, owner._modules, owner.__dict__):
            if name in group:
                return (
                    MarkedConstant(group[name])
                    if name in owner.__dict__.get("_burnlike_constants", ())
                    else group[name]
                )
        return before
    if isinstance(part, Held):
        return part.__dict__["_burnlike_held"]
    if "_burnlike_held_by" in part.__dict__ and isinstance(part, ModuleTuple):
        kind = list if isinstance(part, ModuleVec) else tuple
        return kind(_item(part, inner) for inner in part._names())
    if "_burnlike_held_by" in part.__dict__ and isinstance(part, ModuleDict):
        return {inner: _item(part, inner) for inner in part}
    return part
