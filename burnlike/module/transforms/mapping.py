"""Visits the parameters of a module tree, and maps its tensors, into a new tree or in place."""

import copy
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy as is_shapeless

from ..._torch_compat.dispatch import is_traceable_wrapper_subclass
from ..._torch_compat.fsdp import reshard
from ..._torch_compat.tensors import takes_data_of
from ...errors import MapperError, ModuleTreeError
from ..identity.field_metadata import Kind, meta_of, place_id, set_meta
from ..torch_objects.lazy_parameter import initialize_param, is_lazy
from ..torch_objects.wrappers import is_distributed
from ..tree.param import Param
from ..tree.paths import first_difference, no_parameter
from ..tree.traversal import Enter
from ..tree.walk import params, strong_steps, walk_of
from .structural_copy import copy_plain_tensors, shell

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
        if _is_unfilled(tensor):
            return copy.deepcopy(tensor)
        at_once = is_traceable_wrapper_subclass(tensor) or tensor.is_inference()
        # These can't get other memory later, as `make_own` gives it to the rest.
        value = tensor.detach().clone() if at_once else tensor.detach()
        new_tensor = nn.Parameter(value, requires_grad=tensor.requires_grad) if kind == "weight" else value
        if not at_once:
            lent[id(new_tensor)] = new_tensor
        return new_tensor

    def make_own(tensor: Tensor) -> None:
        if lent.pop(id(tensor), None) is not None:
            tensor.data = tensor.detach().clone()

    def replace(param: Param) -> None:
        present = param.tensor
        make_own(present)
        memory.add(present)
        result = call(param)
        value = _tensor(result)
        if value is not present:
            if is_lazy(value) and param.kind == "weight":
                param.assign(copy.deepcopy(value))
            else:
                initialize_param(value)
                _replace_tensor(param, memory.separate(value))
        _describe(param, result if isinstance(result, Param) else None)

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
    # Gathered copies of sharded parameters would keep the old values.
    reshard(param.tensor for param in params(module))
    before = [_restoring(param) for param in params(module)]
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
        _check_sharding(param, value)
        results.append((param, memory.separate(value), described))

    try:
        traverse(module, mapper, collect)
    except BaseException:  # also of Ctrl-C
        for restore in before:
            restore()
        raise
    for param, value, described in results:
        if value is not None:
            _write(param, value)
        _describe(param, described)
    return module


def _caller(mapper: Mapping, module: nn.Module, rest: tuple[nn.Module, ...]) -> Callable[[Param], Tensor | Param]:
    """A function that calls the mapper with a Param and checks the result."""
    methods = has_methods(mapper, "map")
    columns = [params(other) for other in rest]
    for column in columns:
        if different := first_difference((parameter.path for parameter in params(module)), (it.path for it in column)):
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


def _is_unfilled(tensor: Tensor) -> bool:
    """True if a parameter has no values yet: a lazy one, or torch's own (`nn.LazyLinear`) that has no shape either."""
    return is_lazy(tensor) or is_shapeless(tensor)


class Memory:
    """The memory of some tensors, to find out whether another tensor uses a part of it."""

    def __init__(self, tensors: Iterable[Tensor] = ()) -> None:
        # Ranges of addresses, sorted and without overlap.
        self._starts: list[int] = []
        self._ends: list[int] = []
        for tensor in tensors:
            self.add(tensor)

    def add(self, tensor: Tensor) -> None:
        for start, end in _ranges(tensor) or ():
            first, last = bisect_right(self._ends, start), bisect_left(self._starts, end)
            if first < last:
                start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
            self._starts[first:last] = [start]
            self._ends[first:last] = [end]

    def holds(self, tensor: Tensor) -> bool:
        """True if `tensor` uses a part of the memory, or where it lies is not known."""
        ranges = _ranges(tensor)
        if ranges is None:
            return True
        return any(bisect_right(self._ends, start) < bisect_left(self._starts, end) for start, end in ranges)

    def separate(self, tensor: Tensor) -> Tensor:
        """The values of `tensor`, detached, in memory that none of those taken in uses, and that is now taken in.

        That is the tensor's own memory if it can be trained there, else a copy. Called outside of inference mode.
        """
        value = tensor.detach()
        # A tensor of inference mode can never be trained.
        copied = value.is_inference() or self.holds(value)
        if not copied and not is_traceable_wrapper_subclass(value):  # a part of something larger, or expanded
            copied = value.untyped_storage().nbytes() != value.numel() * value.element_size()
        if copied:
            value = value.clone()
        self.add(value)
        return value


def _ranges(tensor: Tensor) -> list[tuple[int, int]] | None:
    """The addresses that the memory of `tensor` begins and ends at; None where torch can't tell."""
    if is_traceable_wrapper_subclass(tensor):
        names, _ = tensor.__tensor_flatten__()
        parts = [_ranges(part) for name in names if isinstance(part := getattr(tensor, name), Tensor)]
        return None if None in parts else [it for part in parts for it in part or ()]
    if tensor.is_meta or _is_unfilled(tensor):
        return []
    try:
        storage = tensor.untyped_storage()
        start = storage.data_ptr()
    except (NotImplementedError, RuntimeError):  # sparse tensors, and those that have no storage
        return None
    return [(start, start + storage.nbytes())] if storage.nbytes() else []


def _memory_of(*modules: nn.Module) -> Memory:
    return Memory(param.tensor for module in modules for param in params(module))


def _write(param: Param, value: Tensor) -> None:
    """Give `param` the values of `value`, which is in memory of its own, in the present memory if they fit there."""
    target = param.tensor
    wrapped = is_traceable_wrapper_subclass(target) or is_traceable_wrapper_subclass(value)
    if (
        not _is_unfilled(target)
        and not target.is_inference()
        and (not wrapped or is_distributed(target))
        and _form(target) == _form(value)
    ):
        target.copy_(value)
    else:
        _replace_tensor(param, value)


def _replace_tensor(param: Param, value: Tensor) -> None:
    """Let the tensor of `param`, the same object, have the memory, shape, type and device of `value`.

    A gradient that does not fit any more is dropped. Where torch can't keep the object, another one takes its place.
    """
    target = param.tensor
    if is_traceable_wrapper_subclass(target) or is_traceable_wrapper_subclass(value):
        # `.data = ...` would change the outside of a tensor that is made of others, and leave these as they are.
        other = nn.Parameter(value, requires_grad=target.requires_grad) if param.kind == "weight" else value
        try:
            torch.utils.swap_tensors(target, other)
        except RuntimeError:  # others hold on to it
            param.assign(value)
        return
    if _is_unfilled(target):
        target.data = value
        if is_shapeless(target):
            target.__class__ = target.cls_to_become  # pyright: ignore[reportAttributeAccessIssue]
    elif target.is_inference() or not takes_data_of(target, value):
        param.assign(value)
    else:
        if target.grad is not None and _form(target) != _form(value):
            target.grad = None
        target.data = value


def _form(tensor: Tensor) -> tuple[torch.Size, torch.dtype, torch.device]:
    return tensor.shape, tensor.dtype, tensor.device


def _check_sharding(param: Param, value: Tensor) -> None:
    target = param.tensor
    if not is_distributed(target) or (is_distributed(value) and _layout(value) == _layout(target)):
        return
    raise MapperError(
        f"the mapper returned a {type(value).__name__} of shape {list(value.shape)} and {value.dtype} for"
        f" '{param.path}', which is sharded: expected a DTensor of the placements, shape and type of param.tensor, as"
        " operations on it give; the module is as it was"
    )


def _layout(tensor: Any) -> tuple[Any, ...]:
    return tensor.device_mesh, tensor.placements, tensor.shape, tensor.dtype


def _describe(param: Param, result: Param | None) -> None:
    """Let `param` have the trainability of `result`, if that is another one, and the label and mappers it has."""
    if result is None or result.home == param.home:
        return
    other = meta_of(*result.home)
    described = {"name": other.name, "load_mapper": other.load_mapper, "save_mapper": other.save_mapper}
    changes = {key: value for key, value in described.items() if value is not None}
    if changes:
        set_meta(*param.home, **changes)
    if result.trainable != param.trainable:
        param.set_require_grad(result.trainable)


def _restoring(param: Param) -> Callable[[], None]:
    """A function that undoes what a mapper that fails has done to `param`, but for the values of its tensor."""
    (module, name), param_id, tensor = param.home, param.id, param.tensor
    requires_grad, meta = param.requires_grad, meta_of(module, name)

    def restore() -> None:
        if param.tensor is not tensor:
            param.put(tensor)
        if tensor.requires_grad != requires_grad:
            tensor.requires_grad_(requires_grad)
        if place_id(module, name) != param_id:
            param.adopt(param_id)
        if meta_of(module, name) != meta:
            set_meta(module, name, meta)

    return restore
