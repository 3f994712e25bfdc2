"""Maps every tensor of a module tree, into a new tree or in place."""

import copy
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ..._torch_compat.dispatch import is_traceable_wrapper_subclass
from ..._torch_compat.fsdp import reshard
from ...errors import MapperError, ModuleTreeError
from ..identity.field_metadata import Kind
from ..torch_objects.lazy_parameter import initialize_param, is_lazy
from ..torch_objects.memory import Memory, is_unfilled
from ..tree.param import Param
from ..tree.paths import first_difference
from ..tree.walk import params
from .replacing import check_sharding, copy_plain_tensors, describe, replace_tensor, restoring, write
from .structural_copy import shell
from .visiting import has_methods, kind_of, traverse

M = TypeVar("M", bound=nn.Module)


class ModuleMapper:
    """Methods that `map` and `map_` call; override those you need. Each returns a Tensor or a Param.

    A returned Tensor takes the place of the present one; id, label, mappers and trainability stay. A returned Param
    also sets the trainability, and label and mappers where it has some. Returning `param` leaves it as it is.

    An object of another class that has some of the methods will do.
    """

    def map_float(self, param: Param) -> Tensor | Param:
        """A parameter or running statistic of floating-point (or complex, or quantized) numbers."""
        return param

    def map_int(self, param: Param) -> Tensor | Param:
        """A parameter of whole numbers."""
        return param

    def map_bool(self, param: Param) -> Tensor | Param:
        """A parameter of bools."""
        return param

    def enter_module(self, name: str, container: str) -> None: ...

    def exit_module(self, name: str, container: str) -> None: ...


Mapping = ModuleMapper | Callable[..., Any]


@torch.inference_mode(False)  # else what is made could never be trained
@torch.no_grad()
def map(module: M, mapper: Mapping, *rest: nn.Module) -> M:
    """A new module whose tensors are what `mapper` made of those of `module`, with the same ids; no memory is shared.

    The mapper sees Params of the new module, which hold copies: whatever it does to them, `module` is untouched.
    Buffers that are not saved and plain tensors that are attributes are copied; other attributes are the same objects,
    but those that refer to parts of `module` refer to parts of the new one. Gradients are not copied. Of wrappers (DDP,
    torch.compile) the inner module is mapped. A returned tensor that shares nothing with the modules is taken over
    without a copy: give a clone of one that you go on using.

    Args:
        mapper: a ModuleMapper, or a function that is called with each Param; tied tensors once.
        rest: modules with the same paths: the mapper is given the Param of each of them too.

    Raises:
        MapperError: `mapper` is none, or returned something that is neither a Tensor nor a Param, or one of other
            values (floats, whole numbers, bools). What the mapper raises passes through, with the path as a note.
        ModuleTreeError: a module of `rest` has other paths, or the tree is sharded.
    """
    call = _caller(mapper, module, rest)
    memory = _memory_of(module, *rest)
    lent: dict[int, Tensor] = {}  # what still lies in the memory of `module`

    def place(owner: nn.Module, name: str, kind: Kind, tensor: Tensor) -> Tensor:
        if is_unfilled(tensor):
            return copy.deepcopy(tensor)
        at_once = is_traceable_wrapper_subclass(tensor) or tensor.is_inference()
        value = tensor.detach().clone() if at_once else tensor.detach()
        new_tensor = nn.Parameter(value, requires_grad=tensor.requires_grad) if kind == "weight" else value
        if not at_once:
            lent[id(new_tensor)] = new_tensor
        return new_tensor

    def make_own(tensor: Tensor) -> None:
        if lent.pop(id(tensor), None) is not None:
            tensor.data = tensor.detach().clone()

    def replace(param: Param) -> None:
        given = param.tensor
        make_own(given)
        memory.add(given)
        result = call(param)
        value = _tensor(result)
        if value is not given:
            if is_lazy(value) and param.kind == "weight":
                param.assign(copy.deepcopy(value))
            else:
                initialize_param(value)
                replace_tensor(param, memory.separate(value))
        describe(param, result if isinstance(result, Param) else None)

    new = shell(module, place)
    traverse(new, mapper, replace)
    for tensor in list(lent.values()):
        make_own(tensor)
    copy_plain_tensors(new)
    return new


@torch.inference_mode(False)  # else what is made could never be trained
@torch.no_grad()
def map_(module: M, mapper: Mapping, *rest: nn.Module) -> M:
    """As `map`, but in place: parameters stay the same objects, so optimizers keep their references. Returns `module`.

    If the mapper raises or returns something wrong, nothing is changed: tensors, ids, flags and labels are as they
    were. Only what a mapper wrote into a tensor itself, as `param.tensor.zero_()` does, stays written. Where shape,
    type and device stay, values are copied into the present memory, so that views of it see them; a gradient that does
    not fit any more is dropped.
    """
    call = _caller(mapper, module, rest)
    reshard(param.tensor for param in params(module))
    before = [restoring(param) for param in params(module)]
    results: list[tuple[Param, Tensor | None, Param | None]] = []
    memory = _memory_of(module, *rest)

    def collect(param: Param) -> None:
        result = call(param)
        described = result if isinstance(result, Param) else None  # views, kept, would hold on to the present tensors
        value = _tensor(result)
        if value is param.tensor:
            results.append((param, None, described))
            return
        initialize_param(value)
        check_sharding(param, value)
        results.append((param, memory.separate(value), described))

    try:
        traverse(module, mapper, collect)
    except BaseException:
        for restore in before:
            restore()
        raise
    for param, value, described in results:
        if value is not None:
            write(param, value)
        describe(param, described)
    return module


def _caller(mapper: Mapping, module: nn.Module, rest: tuple[nn.Module, ...]) -> Callable[[Param], Tensor | Param]:
    """A function that calls the mapper with a Param and checks the result."""
    methods = has_methods(mapper, "map")
    columns = [params(other) for other in rest]
    for column in columns:
        if different := first_difference((it.path for it in params(module)), (it.path for it in column)):
            ours, theirs = different
            raise ModuleTreeError(f"expected modules with the same parameters, got {ours} beside {theirs}")
    others = zip(*columns, strict=True) if rest else None

    def call(param: Param) -> Tensor | Param:
        beside = next(others) if others is not None else ()
        kind = kind_of(param.tensor)
        function: Any = getattr(mapper, f"map_{kind}", None) if methods else mapper
        return param if function is None else _checked(param, kind, function(param, *beside))

    return call


def _checked(param: Param, expected: str, result: Any) -> Tensor | Param:
    if not isinstance(result, Tensor | Param):
        forgot = "; does it lack a `return`?" if result is None else ""
        raise MapperError(
            f"the mapper returned {type(result).__name__} for '{param.path}': expected a torch.Tensor or a Param"
            f"{forgot}; the module is as it was"
        )
    tensor = _tensor(result)
    if kind_of(tensor) != expected:
        raise MapperError(
            f"the mapper returned a tensor of {tensor.dtype} for '{param.path}': expected {expected} values; the module"
            " is as it was"
        )
    return result


def _tensor(result: Tensor | Param) -> Tensor:
    return result.tensor if isinstance(result, Param) else result


def _memory_of(*modules: nn.Module) -> Memory:
    return Memory(param.tensor for module in modules for param in params(module))
