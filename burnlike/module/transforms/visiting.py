"""Visiting the parameters of a module tree."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

from ...errors import MapperError
from ..tree.param import Param
from ..tree.paths import no_parameter
from ..tree.traversal import Enter
from ..tree.walk import strong_steps, walk_of

T = TypeVar("T")


class ModuleVisitor:
    """Methods that `visit` calls; override those you need. An object with some of the methods works too."""

    def visit_float(self, param: Param) -> None:
        """A parameter or running statistic of floating-point (or complex, or quantized) numbers."""

    def visit_int(self, param: Param) -> None:
        """A parameter of whole numbers."""

    def visit_bool(self, param: Param) -> None:
        """A parameter of bools."""

    def enter_module(self, name: str, container: str) -> None:
        """A field begins, one that holds a part of the tree or a tensor; the names entered, by dots, are the path.

        `container` is what the field belongs to: `Struct:Linear`, `Vec`, `Array`, `Tuple`, `Dict`, `Enum:Head` or
        `Reparameterization`.
        """

    def exit_module(self, name: str, container: str) -> None:
        """The field ends; it is called for each field that began, also if something raised in it."""


def visit(module: nn.Module, visitor: ModuleVisitor | Callable[[Param], T]) -> list[T]:
    """Show `visitor`, a ModuleVisitor or a function, each Param of the tree once, in the order of `params`.

    It gives what a function gave for each Param, in their order; nothing of a ModuleVisitor.

    The tensors are the parameters themselves, and can be written to: torch has none that refuse it, and copies would
    take as much memory as the module. Who changes values uses `map_`, which undoes what was begun when something fails.

    Raises:
        MapperError: `visitor` is neither. What the visitor itself raises passes through, with the path as a note.
    """
    results: list[T] = []
    if has_methods(visitor, "visit"):
        methods = {kind: getattr(visitor, f"visit_{kind}", _ignore) for kind in ("float", "int", "bool")}
        traverse(module, visitor, lambda param: methods[kind_of(param.tensor)](param))
    else:
        traverse(module, None, lambda param: results.append(visitor(param)))  # pyright: ignore[reportCallIssue]
    return results


def has_methods(guide: object, verb: str) -> bool:
    """True if `guide` has methods for `verb`, `visit` or `map` (`enter_module` and others); False for a function."""
    names = [f"{verb}_float", f"{verb}_int", f"{verb}_bool", "enter_module", "exit_module"]
    methods = [name for name in names if callable(getattr(guide, name, None))]
    if methods and isinstance(guide, type):
        raise MapperError(
            f"expected an object with {methods[0]}, got the class {guide.__name__}; give {guide.__name__}()"
        )
    if not methods and not callable(guide):
        raise MapperError(
            f"expected a function of a Param, or an object with {', '.join(names)} or some of them,"
            f" got {type(guide).__name__}"
        )
    return bool(methods)


def traverse(module: nn.Module, guide: object, show: Callable[[Param], object]) -> None:
    """Call `show` with each Param of the tree, and tell `guide` which fields begin and end around it.

    That is by its methods `enter_module` and `exit_module`, if it has them; each beginning is followed by an end, also
    if something raises. A note with the path is added to what `show` raises.
    """
    enter = getattr(guide, "enter_module", _ignore)
    leave = getattr(guide, "exit_module", _ignore)
    walk = walk_of(module)
    steps = strong_steps(walk.params if enter is leave is _ignore else walk.marked_steps)
    entered: list[Enter] = []
    step = None
    try:
        for step in steps:
            if isinstance(step, Param):
                show(step)
            elif isinstance(step, Enter):
                enter(step.name, step.container)
                entered.append(step)
            else:
                entered.pop()
                leave(step.name, step.container)
    except BaseException as error:  # also of Ctrl-C: visitors may hold open what they began
        if isinstance(step, Param) and not isinstance(error, MapperError):
            error.add_note(f"at the parameter '{step.path}' of {type(module).__name__}")
        for field in reversed(entered):
            leave(field.name, field.container)
        raise


def _ignore(*what: object) -> None: ...


def kind_of(tensor: torch.Tensor) -> str:
    """`float`, `int` or `bool`: which method of a visitor or mapper a tensor is for."""
    if tensor.is_floating_point() or tensor.is_complex() or tensor.is_quantized:
        return "float"
    return "bool" if tensor.dtype == torch.bool else "int"


def param_at(module: nn.Module, path: str) -> Param:
    """The Param at a canonical path, any of a tied tensor; ParamPathError, which names the nearest, if none is."""
    if not isinstance(path, str):
        raise TypeError(f"expected the path of a parameter, as 'layers.0.weight', got {path!r}")
    by_path = walk_of(module).by_path
    if path not in by_path:
        raise no_parameter(module, path, by_path)
    return by_path[path].strong()
