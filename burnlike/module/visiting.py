"""Visiting the parameters of a module tree."""

from collections.abc import Callable

import torch
from torch import nn

from ..errors import ParamPathError, nearest
from .param import Param
from .registry import params, walk_of
from .tree import Enter, Exit


class ModuleVisitor:
    """What `visit` calls; override what you need."""

    def visit_float(self, param: Param) -> None:
        """A parameter or running statistic of floating-point (or complex) numbers."""

    def visit_int(self, param: Param) -> None:
        """A parameter of whole numbers."""

    def visit_bool(self, param: Param) -> None:
        """A parameter of bools."""

    def enter_module(self, name: str, container: str) -> None:
        """A field begins; the names entered, joined by dots, are the path.

        Args:
            name: of the field, or its index.
            container: what the field belongs to: `Struct:Linear`, `Vec`, `Array`, `Tuple`, `Dict`, `Enum:Head` or
                `Reparameterization`.
        """

    def exit_module(self, name: str, container: str) -> None:
        """The field ends."""


def visit(module: nn.Module, visitor: ModuleVisitor | Callable[[Param], object]) -> None:
    """Show `visitor` each Param of the tree, in the order of `params`; tied tensors once.

    Args:
        module: any `nn.Module`.
        visitor: a ModuleVisitor, or a function that is called with each Param.
    """
    if not isinstance(visitor, ModuleVisitor):
        for param in walk_of(module).params:
            visitor(param)
        return
    for step in walk_of(module).steps:
        if isinstance(step, Enter):
            visitor.enter_module(step.name, step.container)
        elif isinstance(step, Exit):
            visitor.exit_module(step.name, step.container)
        else:
            getattr(visitor, f"visit_{kind_of(step.tensor)}")(step)


def kind_of(tensor: torch.Tensor) -> str:
    """`float`, `int` or `bool`: which method of a visitor or mapper a tensor is for."""
    if tensor.is_floating_point() or tensor.is_complex():
        return "float"
    return "bool" if tensor.dtype == torch.bool else "int"


def param_at(module: nn.Module, path: str) -> Param:
    """The Param at a canonical path, or at another path of a tied tensor.

    Raises:
        ParamPathError: there is none; the nearest path is named.
    """
    found = params(module)
    for param in found:
        if path == param.path or path in param.aliases:
            return param
    known = [name for param in found for name in (param.path, *param.aliases)]
    raise ParamPathError(f"{type(module).__name__} has no parameter '{path}'{nearest(path, known)}")
