"""Modules that are more than a layer of their class: own methods, hooks and parts; objects of registered classes."""

import inspect
from collections.abc import Collection, Iterable, Iterator
from types import CellType, FunctionType, MethodType
from typing import Any

from torch import Tensor, nn

from .._torch_compat.modules import HOOKS
from ..errors import NoCounterpartError
from ..module.attributes.plain_attributes import DEEPEST, plain_names
from ..module.identity.field_metadata import KEPT as FIELDS, change_field, fields_of
from .fused.forwards import is_written_in, stock_forward
from .layer_conversion import ORIGIN, change_class, hidden
from .special_layers import READERS, plain_class
from .torch_counterparts import burnlike_layers, torch_layers

_NOT_COPIED = (FIELDS, ORIGIN, READERS)
_GROUPS = ("_parameters", "_buffers", "_modules")
_PARTS = {nn.modules.linear.NonDynamicallyQuantizableLinear}
"""Classes of parts of torch's layers that are no layers by themselves: the output projection of attention."""


def replaced_method(module: nn.Module) -> str:
    """The name of a method that was replaced on this object by a function; empty if there is none.

    The function may compute with the module that it was made for, also in a copy.
    """
    for name, value in module.__dict__.items():
        if inspect.isroutine(getattr(type(module), name, None)) and callable(value):
            return "" if isinstance(value, MethodType) and value.__self__ is module else name
    return ""


def function_around(module: nn.Module, parts: Collection[int]) -> str:
    """The attribute of `module` with a function that holds one of `parts`, given by `id()`; empty if there is none.

    A copy of the module has the same function, which computes with the original's parts.
    """
    for name, value in module.__dict__.items():
        if name not in _GROUPS and any(id(it) in parts for it in _held_by_functions([value], 0)):
            return name
    return ""


def _held_by_functions(values: Iterable[Any], depth: int, *, within: bool = False) -> Iterator[Any]:
    """The values in the closures and defaults of functions among `values`, also in lists and mappings."""
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
    """Why a layer may compute something else than its class; empty if not. `whole`: its class has no added parts."""
    parts = list(layer.modules()) if whole else [layer]
    library_classes = torch_layers() | burnlike_layers() | _PARTS
    owner, forward = stock_forward(type(layer))
    if any((part.__dict__.get(registry) or {}) for part in parts for registry in HOOKS):
        return "it has hooks, which may rely on its tensors; remove them before"
    if whole and (foreign := [it for it in parts if plain_class(type(it)) not in library_classes]):
        return f"a part of it, {type(foreign[0]).__name__}, may compute something else"
    if any("forward" in part.__dict__ or replaced_method(part) for part in parts):
        return "its forward is not that of its class, and may compute otherwise; take it back (del layer.forward)"
    if whole and not (forward and is_written_in(owner, forward)):
        return f"the forward of {type(layer).__name__} was replaced, and may compute otherwise"
    if len({part.training for part in parts}) > 1:
        return "only a part of it is in training mode; call train() or eval() on the layer"
    return ""


class OtherClass:
    """A module whose class was registered with another one (`kind`), of which its copy becomes an object.

    Args:
        layer: None for a module that calls layers; else one whose class is derived from a layer with a twin.
        made: the twin of the layer that its class is derived from.
        plain: a layer with nothing added.
        ignored: names that only one of the two libraries has.
    """

    def __init__(
        self,
        path: str,
        kind: type[nn.Module],
        layer: nn.Module | None = None,
        twin: nn.Module | None = None,
        plain: nn.Module | None = None,
        ignored: tuple[str, ...] = (),
    ) -> None:
        self.path, self._kind, self._made, self._plain = path, kind, twin, plain
        self._passed = {*_NOT_COPIED, *ignored, *map(hidden, ignored)}
        if layer is not None and twin is not None:
            taken = {*twin.__dict__, *(name for group in _GROUPS for name in twin.__dict__[group])}
            if both := sorted(taken & set(self._added(layer))):
                raise NoCounterpartError(f"its attribute '{both[0]}' has the name of one of the twin's; rename it")

    def take(self, module: nn.Module) -> None:
        """Make `module`, a copy, an object of the other class, with the twin's parts in place of the layer's."""
        if (twin := self._made) is not None:
            attributes = module.__dict__
            for name in self._added(module):
                for group in _GROUPS:
                    if name in attributes[group]:
                        twin.__dict__[group][name] = attributes[group][name]
                if name in attributes:
                    twin.__dict__[name] = attributes[name]
                if name in module._non_persistent_buffers_set:
                    twin._non_persistent_buffers_set.add(name)
                if name in fields_of(module):
                    change_field(twin, name, fields_of(module)[name])
            object.__setattr__(module, "__dict__", twin.__dict__)
        change_class(module, self._kind)

    def _added(self, module: nn.Module) -> list[str]:
        """The names of what `module`, the layer or its copy, has beside a plain layer."""
        plain, attributes = vars(self._plain), vars(module)
        pairs = [(attributes, plain), *((attributes[group], plain[group]) for group in _GROUPS)]
        return [name for has, usual in pairs for name in has if name not in usual and name not in self._passed]


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
