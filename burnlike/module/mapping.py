"""Mapping every tensor of a module tree, into a new tree or in place."""

import copy
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ..errors import ModuleTreeError
from .lazy import is_lazy
from .param import Kind, Param
from .registry import params, walk_of
from .shell import shell
from .slots import meta_of, set_meta
from .tree import Enter, Exit
from .visiting import kind_of

M = TypeVar("M", bound=nn.Module)


class ModuleMapper:
    """What `map` and `map_` call; override what you need. Each method returns a Tensor or a Param.

    A returned Tensor takes the place of the present one; id, label, mappers and trainability stay. A returned Param
    also sets label, mappers and trainability. Returning `param` itself leaves it as it is.
    """

    def map_float(self, param: Param) -> Tensor | Param:
        """A parameter or running statistic of floating-point (or complex) numbers."""
        return param

    def map_int(self, param: Param) -> Tensor | Param:
        """A parameter of whole numbers."""
        return param

    def map_bool(self, param: Param) -> Tensor | Param:
        """A parameter of bools."""
        return param

    def enter_module(self, name: str, container: str) -> None:
        """A field begins; see `ModuleVisitor.enter_module`."""

    def exit_module(self, name: str, container: str) -> None:
        """The field ends."""


Mapping = ModuleMapper | Callable[..., Any]


def map(module: M, mapper: Mapping, *rest: nn.Module) -> M:
    """A new module whose tensors are what `mapper` made of those of `module`, with the same ids; no memory is shared.

    Args:
        module: any `nn.Module`; it is untouched. Of wrappers (DDP, torch.compile) the inner module is mapped.
        mapper: a ModuleMapper, or a function that is called with each Param; tied tensors once.
        rest: modules with the same paths: the function gets the Param of each of them too.

    Raises:
        TypeError: the mapper returned something that is neither a Tensor nor a Param of the same kind.
        ModuleTreeError: a module of `rest` has other paths, or the tree is sharded.
    """
    old = params(module)
    results = _results(module, mapper, rest)
    made = {id(param.tensor): _separate(param, result) for param, result in zip(old, results, strict=True)}

    def place(owner: nn.Module, name: str, kind: Kind, tensor: Tensor) -> Tensor:
        return made[id(tensor)] if id(tensor) in made else tensor.detach().clone()

    new = shell(module, place)
    for param, result in zip(params(new), results, strict=True):
        if isinstance(result, Param):
            _describe(param, result)
    return new


def map_(module: M, mapper: Mapping, *rest: nn.Module) -> M:
    """As `map`, but in place: parameters stay the same objects, so optimizers keep their references.

    If the mapper raises or returns something wrong, nothing is changed.
    """
    old = params(module)
    results = _results(module, mapper, rest)
    values = [_tensor(result) for result in results]
    ours = {_storage(param.tensor) for param in old}
    values = [
        value if value is param.tensor or _storage(value) not in ours else value.detach().clone()
        for param, value in zip(old, values, strict=True)
    ]
    for param, result, value in zip(old, results, values, strict=True):
        _write(param, value)
        if isinstance(result, Param) and result is not param:
            _describe(param, result)
    return module


@torch.no_grad()
def _results(module: nn.Module, mapper: Mapping, rest: tuple[nn.Module, ...]) -> list[Tensor | Param]:
    """What the mapper makes of each Param, checked, before anything is changed."""
    others = [_matching(module, other) for other in rest]
    results: list[Tensor | Param] = []
    entered: list[Enter] = []
    try:
        for step in walk_of(module).steps:
            if isinstance(step, Param):
                if isinstance(mapper, ModuleMapper):
                    result = getattr(mapper, f"map_{kind_of(step.tensor)}")(step)
                else:
                    result = mapper(step, *(found[len(results)] for found in others))
                results.append(_checked(step, result))
            elif isinstance(mapper, ModuleMapper):
                if isinstance(step, Enter):
                    entered.append(step)
                    mapper.enter_module(step.name, step.container)
                elif isinstance(step, Exit):
                    mapper.exit_module(step.name, step.container)
                    entered.pop()
    except BaseException:
        for step in reversed(entered):  # so that the mapper's own path is balanced
            mapper.exit_module(step.name, step.container)  # pyright: ignore[reportAttributeAccessIssue]
        raise
    return results


def _matching(module: nn.Module, other: nn.Module) -> list[Param]:
    found = params(other)
    paths = [param.path for param in params(module)]
    for ours, theirs in zip(paths, [param.path for param in found], strict=False):
        if ours != theirs:
            raise ModuleTreeError(f"expected modules with the same parameters, got '{ours}' beside '{theirs}'")
    if len(found) != len(paths):
        raise ModuleTreeError(f"expected modules with the same parameters, got {len(paths)} beside {len(found)}")
    return found


def _checked(param: Param, result: Any) -> Tensor | Param:
    if not isinstance(result, Tensor | Param):
        raise TypeError(
            f"the mapper returned {type(result).__name__} for '{param.path}': expected a torch.Tensor or a Param;"
            " the module is as it was"
        )
    expected, got = kind_of(param.tensor), kind_of(_tensor(result))
    if got != expected:
        raise TypeError(
            f"the mapper returned a tensor of {_tensor(result).dtype} for '{param.path}': expected {expected} values;"
            " the module is as it was"
        )
    return result


def _tensor(result: Tensor | Param) -> Tensor:
    return result.tensor if isinstance(result, Param) else result


def _separate(param: Param, result: Tensor | Param) -> Tensor:
    """The tensor of the new module: of its own memory, tracked as the old one."""
    value = _tensor(result)
    if is_lazy(value):
        return copy.deepcopy(value)
    value = value.detach()
    if _storage(value) == _storage(param.tensor):
        value = value.clone()
    return nn.Parameter(value, requires_grad=param.requires_grad) if param.kind == "weight" else value


def _storage(tensor: Tensor) -> int:
    """Where the memory of `tensor` begins; a number of its own where it has none to share."""
    if tensor.is_meta or is_lazy(tensor) or type(tensor) not in (Tensor, nn.Parameter):
        return -id(tensor)
    return tensor.untyped_storage().data_ptr()


@torch.no_grad()
def _write(param: Param, value: Tensor) -> None:
    target = param.tensor
    if value is target:
        return
    if (target.device, target.dtype, target.shape) == (value.device, value.dtype, value.shape):
        target.copy_(value)
    elif torch._has_compatible_shallow_copy_type(target, value):
        target.data = value.detach()
    else:
        param.assign(value)


def _describe(param: Param, described: Param) -> None:
    """Give `param` label, mappers and trainability of another one."""
    other = meta_of(*described.home)
    set_meta(
        *param.home,
        None,
        name=other.name if other.name is not None else param.name,
        load_mapper=other.load_mapper,
        save_mapper=other.save_mapper,
    )
    param.set_require_grad(described.trainable)
