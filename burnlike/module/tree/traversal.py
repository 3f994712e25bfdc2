"""Traverses a module tree: its tensors and modules in order, with canonical names.

This and `torch_objects/wrappers.py` alone know how torch's tools change a tree: here, the reparameterizations that
move a tensor elsewhere.
"""

import copyreg
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor, jit, nn

from ..._torch_compat.fsdp import sharded_forms
from ..._torch_compat.modules import FORWARD_PRE_HOOKS, moved_names
from ...errors import ModuleTreeError
from ..attributes.plain_attributes import USER_CONTAINER, refresh_container
from ..identity.field_metadata import KEPT, Kind, fields_of, ordered_fields
from ..torch_objects.wrappers import (
    base_name,
    check_module,
    container_of,
    parametrizations_of,
    reparameterization_of,
    wrapped_name,
)


class Slot(NamedTuple):
    """An attribute that has a tensor of a record: `path` is canonical, `owner` has it in its `_parameters` or
    `_buffers`.

    `home_module` is where its id is kept, as `home_name`: the owner, but for a tensor that a parametrization moved.
    """

    path: str
    owner: nn.Module
    name: str
    kind: Kind
    tensor: Tensor
    home_module: nn.Module
    home_name: str


class Enter(NamedTuple):
    """The begin of a field with a module, in what `container_of` says; one with just a tensor is a Slot."""

    name: str
    container: str


class Exit(NamedTuple):
    """The end of the field of the matching Enter."""

    name: str
    container: str


def slots_of(root: nn.Module) -> list[Slot]:
    """Every place of a tensor in a tree, in order; a tied tensor has several. Errors are those of `traverse`."""
    slots: list[Slot] = []
    traverse(root, lambda *slot: slots.append(Slot(*slot)), lambda mark: None, [], [])
    return slots


def traverse(
    root: nn.Module,
    on_slot: Callable[..., object],
    on_field: Callable[..., object],
    seen: list[nn.Module],
    lists: list[tuple[nn.Module, str, Any]],
) -> None:
    """Call `on_slot` with the attributes of each Slot, and `on_field` with the Enter and Exit of the fields around it.

    `on_slot` gets no Slot, which is slow to make in large trees. `seen` collects every module that was passed, wrappers
    included; `lists` the fields that held plain lists and dicts when they were assigned: module, name, value.

    Raises:
        ModuleTreeError: a module holds itself, or a part of the tree is in `__slots__`.
    """
    forms = sharded_forms()

    def with_sharded(path: str, owner: nn.Module, name: str, kind: Kind, tensor: Tensor, *home: Any) -> None:
        # A module that shows a gathered copy of a parameter has the sharded one.
        on_slot(path, owner, name, kind, forms.get(id(tensor), tensor), *home)

    _Traversal(with_sharded if forms else on_slot, on_field, seen, lists).walk(root, "")


@dataclass
class _Traversal:
    """One traversal in progress; on_slot, on_field, seen, lists are the arguments of `traverse`.

    Attributes:
        above: the modules around the present one, by address, each with the prefix of the paths in it.
        marks: Enter and Exit of the fields met; most trees repeat a few.
        ordinary: the classes met that wrap no module and have no slots, and whether their Fields are in order.
    """

    on_slot: Callable[..., object]
    on_field: Callable[..., object]
    seen: list[nn.Module]
    lists: list[tuple[nn.Module, str, Any]]
    above: dict[int, str] = field(default_factory=dict)
    marks: dict[tuple[str, str], tuple[Enter, Exit]] = field(default_factory=dict)
    ordinary: dict[type, bool] = field(default_factory=dict)

    def walk(self, module: nn.Module, prefix: str) -> None:
        self.seen.append(module)
        # Checks of the class, once for each class: a large tree has thousands of modules of a few classes.
        ordered = self.ordinary.get(type(module))
        if ordered is None:
            module = self._unwrap(module, prefix)
            ordered = getattr(type(module), "_burnlike_ordered", False)
        parts = module.__dict__
        if USER_CONTAINER in parts:
            refresh_container(module)
        parameters, buffers, modules = parts["_parameters"], parts["_buffers"], parts["_modules"]
        moved = moved_names(module) if parts[FORWARD_PRE_HOOKS] else _NO_NAMES
        fields = parts.get(KEPT)
        if fields is None:
            fields = fields_of(module)
        on_slot = self.on_slot
        if not modules and not buffers:  # most modules: a few parameters and nothing else
            for name in _ordered_names(module, parts, fields) if ordered else parameters:
                if (tensor := parameters.get(name)) is not None:
                    on_slot(prefix + name, module, name, "weight", tensor, module, moved.get(name, name))
                elif (kept := fields.get(name)) and kept.get("holds") == "list":
                    self.lists.append((module, name, parts.get(name)))
            return
        if (above := self.above.get(id(module))) is not None:
            raise ModuleTreeError(
                f"'{prefix[:-1]}' is the {type(module).__name__} at {_place(above)}, which holds it: a tree can't hold"
                " itself; keep a reference upwards as burnlike.constant(module)"
            )
        self.above[id(module)] = prefix
        container = container_of(module)
        for name in _ordered_names(module, parts, fields if ordered else _NO_NAMES):
            if (child := modules.get(name)) is not None:
                self._walk_field(name, container, child, f"{prefix}{name}.")
            elif (tensor := parameters.get(name)) is not None:
                on_slot(prefix + name, module, name, "weight", tensor, module, moved.get(name, name))
            elif (tensor := buffers.get(name)) is not None:
                if name not in parts["_non_persistent_buffers_set"]:
                    on_slot(prefix + name, module, name, "state", tensor, module, name)
            elif "parametrizations" in modules and name in parametrizations_of(module):
                self._walk_parametrized(module, name, prefix)
            elif (kept := fields.get(name)) and kept.get("holds") == "list":
                self.lists.append((module, name, parts.get(name)))
        del self.above[id(module)]

    def _unwrap(self, module: nn.Module, prefix: str) -> nn.Module:
        """The module inside the wrappers of `module`, with its slots checked."""
        check_module(module)
        while (inner := wrapped_name(type(module))) is not None:
            module = module._modules[inner]  # pyright: ignore[reportAssignmentType]
            self.seen.append(module)
        if isinstance(module, jit.ScriptModule):
            raise ModuleTreeError(
                f"{_place(prefix)} is a module of torch.jit, whose tensors lie in C++, where they can have no ParamId:"
                " give the module that was scripted or traced, or refer to this one as burnlike.constant(module)"
            )
        if "_modules" not in module.__dict__:
            raise ModuleTreeError(
                f"{_place(prefix)} is a {type(module).__name__} whose __init__ has not called super().__init__(); call"
                " it before anything is assigned"
            )
        slots = copyreg._slotnames(type(module))  # pyright: ignore[reportAttributeAccessIssue]
        if not slots:
            self.ordinary[type(module)] = getattr(type(module), "_burnlike_ordered", False)
        for name in slots:
            value = getattr(module, name, None)
            held = name in module._parameters or name in module._modules
            if isinstance(value, nn.Module | nn.Parameter) and not held:
                raise ModuleTreeError(
                    f"'{prefix}{name}' is a {type(value).__name__} in a slot of {type(module).__name__}, where neither"
                    " torch nor burnlike sees it; leave __slots__ out of the class"
                )
        return module

    def _walk_field(self, name: str, container: str, child: nn.Module, prefix: str) -> None:
        marks = self.marks.get((name, container))
        if marks is None:
            marks = self.marks[name, container] = Enter(name, container), Exit(name, container)
        self.on_field(marks[0])
        self.walk(child, prefix)
        self.on_field(marks[1])

    def _walk_parametrized(self, module: nn.Module, name: str, prefix: str) -> None:
        """The tensor keeps its id. Its path stays under our reparameterizations, and is torch's under others."""
        lists: Any = module._modules["parametrizations"]
        list_of = lists._modules[name]
        self.seen += (lists, list_of)
        ours = reparameterization_of(module, name)
        container = container_of(module)
        torchs_fields = Enter("parametrizations", container), Enter(name, "Dict")
        fields = torchs_fields if ours is None else (Enter(name, container),)
        inside = f"{prefix}parametrizations.{name}."
        base = base_name(list_of)
        self._enter(fields)
        for kind, tensors in (("weight", list_of._parameters), ("state", list_of._buffers)):
            for key, tensor in tensors.items():
                if tensor is not None:
                    path = prefix + name if ours is not None else inside + key
                    home = (module, name) if key == base else (list_of, key)
                    self.on_slot(path, list_of, key, kind, tensor, *home)
        if ours is not None:
            label: str = type(ours).reparameterization_name  # pyright: ignore[reportAttributeAccessIssue]
            self._walk_field(label, "Reparameterization", ours, f"{prefix}{name}.{label}.")
        others = {key: child for key, child in list_of._modules.items() if child is not None and child is not ours}
        if others and ours is not None:
            self._exit(fields)
            self._enter(fields := torchs_fields)
        for key, child in others.items():
            self._walk_field(key, "Reparameterization", child, f"{inside}{key}.")
        self._exit(fields)

    def _enter(self, fields: tuple[Enter, ...]) -> None:
        for begin in fields:
            self.on_field(begin)

    def _exit(self, fields: tuple[Enter, ...]) -> None:
        for begin in reversed(fields):
            self.on_field(Exit(*begin))


def _place(prefix: str) -> str:
    return f"'{prefix[:-1]}'" if prefix else "the root"


def field_names(module: nn.Module) -> Iterable[str]:
    """The names of the parameters, buffers and children of `module`: in order of declaration where that is known.

    Parametrized tensors are among them, `parametrizations` itself is not.
    """
    parts = module.__dict__
    held = {*parts["_parameters"], *parts["_buffers"], *parts["_modules"], *parametrizations_of(module)}
    return [name for name in _ordered_names(module, parts, ordered_fields(module)) if name in held]


_NO_NAMES: dict[str, Any] = {}


def _ordered_names(module: nn.Module, parts: dict[str, Any], fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The field names of `module` among others; in the order of its `fields`, where these are given."""
    parameters, buffers, modules = parts["_parameters"], parts["_buffers"], parts["_modules"]
    if not modules and not buffers and (not fields or parameters.keys() <= fields.keys()):
        return fields or parameters
    names = {**fields, **parameters, **buffers, **modules}
    if "parametrizations" in names and (parametrized := parametrizations_of(module)):
        names.update(parametrized)
        del names["parametrizations"]
    return names
