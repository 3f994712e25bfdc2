"""What makes a module more than a layer of its class: own methods, hooks and parts; objects of registered classes."""

import inspect
from collections.abc import Collection, Iterable, Iterator
from types import CellType, FunctionType, MethodType
from typing import Any, NamedTuple

from torch import Tensor, nn

from .._torch_compat.modules import HOOKS
from ..errors import NoCounterpartError
from ..module.attributes.plain_attributes import DEEPEST, plain_names
from ..module.identity.field_metadata import KEPT as FIELDS, change_field, fields_of
from .layer_conversion import ORIGIN, change_class, hidden
from .special_layers import READERS

_NOT_COPIED = (FIELDS, ORIGIN, READERS)
_GROUPS = ("_parameters", "_buffers", "_modules")
_LIBRARIES = ("torch.", "burnlike.")


def replaced_method(module: nn.Module) -> str:
    """The name of a method that the program replaced on this object, empty if there is none.

    A function in its place may compute with the module that it was made for, also in a copy; a method does not.
    """
    for name, value in module.__dict__.items():
        if inspect.isroutine(getattr(type(module), name, None)) and callable(value):
            return "" if isinstance(value, MethodType) and value.__self__ is module else name
    return ""


def function_around(module: nn.Module, parts: Collection[int]) -> str:
    """The attribute of `module` with a function that holds some of these objects, empty if there is none.

    A copy has the function itself, which computes with the original's objects.

    Args:
        module: a program.
        parts: addresses of modules and tensors.
    """
    for name, value in module.__dict__.items():
        if name not in _GROUPS and any(id(it) in parts for it in _held_by_functions([value], 0)):
            return name
    return ""


def _held_by_functions(values: Iterable[Any], depth: int, *, within: bool = False) -> Iterator[Any]:
    """What functions among the values, also in lists and mappings, have in their closures and defaults."""
    for value in values if depth <= DEEPEST else ():
        if within:
            yield value
        if isinstance(value, FunctionType):
            cells = map(_content, value.__closure__ or ())
            held = [*cells, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
            yield from _held_by_functions(held, depth + 1, within=True)
        elif isinstance(value, list | tuple | dict):
            items = value.values() if isinstance(value, dict) else value
            yield from _held_by_functions(items, depth + 1, within=within)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a variable that has no value yet
        return None


def why_not(layer: nn.Module, *, whole: bool) -> str:
    """Why a layer may compute something else than its class says, or its twin would; empty if it does not.

    Args:
        layer: of a class with a twin.
        whole: whether its parts belong to the layer, and are not modules that a class has added.
    """
    parts = list(layer.modules()) if whole else [layer]
    if any((part.__dict__.get(registry) or {}) for part in parts for registry in HOOKS):
        return "it has hooks, which may rely on its tensors; remove them before"
    if whole and (own := [it for it in parts if not type(it).__module__.startswith(_LIBRARIES)]):
        return f"a part of it, {type(own[0]).__name__}, may compute something else"
    if any("forward" in part.__dict__ or replaced_method(part) for part in parts):
        return "its forward is not that of its class, and may compute otherwise; take it back (del layer.forward)"
    if whole and not layer.forward.__module__.startswith(_LIBRARIES):
        return f"the forward of {type(layer).__name__} was replaced, and may compute otherwise"
    if len({part.training for part in parts}) > 1:
        return "only a part of it is in training mode; call train() or eval() on the layer"
    return ""


class Parts(NamedTuple):
    """The parts of a layer of a class that is derived from one with a twin.

    Attributes:
        layer: the layer.
        made: the twin of the layer that its class is derived from.
        plain: a layer with nothing added.
        ignored: names that only one of the two libraries has.
    """

    layer: nn.Module
    made: nn.Module
    plain: nn.Module
    ignored: tuple[str, ...]

    def added(self, module: nn.Module) -> list[str]:
        """The names of what `module`, the layer or its copy, has beside a plain layer."""
        plain, passed = self.plain.__dict__, {*_NOT_COPIED, *self.ignored, *map(hidden, self.ignored)}
        found = [name for name in module.__dict__ if name not in plain and name not in passed]
        for group in _GROUPS:
            found += [name for name in module.__dict__[group] if name not in plain[group] and name not in passed]
        return found


class OtherClass:
    """A module of a registered class: its copy becomes an object of the class that is registered with it."""

    def __init__(self, path: str, kind: type[nn.Module], parts: Parts | None = None) -> None:
        """Note it.

        Args:
            path: of the module.
            kind: the class.
            parts: of a layer; None for a program.

        Raises:
            NoCounterpartError: what the class added has a name of the twin's.
        """
        self.path = path
        self._kind = kind
        self._parts = parts
        if parts is not None:
            made = parts.made.__dict__
            taken = {*made, *(name for group in _GROUPS for name in made[group])}
            if both := sorted(taken & set(parts.added(parts.layer))):
                raise NoCounterpartError(f"its attribute '{both[0]}' has the name of one of the twin's; rename it")

    def take(self, module: nn.Module) -> None:
        """Let `module`, a copy, be an object of the class, with the twin's parts in place of the layer's."""
        if self._parts is not None:
            made, given = self._parts.made, module.__dict__
            for name in self._parts.added(module):
                for group in _GROUPS:
                    if name in given[group]:
                        made.__dict__[group][name] = given[group][name]
                if name in given:
                    made.__dict__[name] = given[name]
                if name in module._non_persistent_buffers_set:
                    made._non_persistent_buffers_set.add(name)
                if name in fields_of(module):
                    change_field(made, name, fields_of(module)[name])
            object.__setattr__(module, "__dict__", made.__dict__)
        change_class(module, self._kind)


def tensors_held(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The tensors of `module` itself, also those in plain attributes, with their names."""
    for group in (module._parameters, module._buffers):
        yield from ((name, it) for name, it in group.items() if it is not None)
    for name in plain_names(module.__dict__):
        yield from ((name, it) for it in _tensors_in(module.__dict__[name], 0))


def _tensors_in(value: Any, depth: int) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple | dict) and depth < DEEPEST:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _tensors_in(item, depth + 1)
