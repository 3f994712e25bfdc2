"""Parameters that know their shape and get their values at first use.

Until then the tensor is NaN everywhere, with the memory of one number: C++ code that looks past `__torch_function__`
computes NaN rather than numbers that look right.
"""

import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor, nn

from ..._torch_compat.pytree import tree_map
from ..._torch_compat.tensors import TAKES_DATA
from ...errors import DTypeError, ModuleTreeError, ShapeError

Init = Callable[[torch.device], Tensor]

# What torch asks a tensor without need of its values: of the form that they will have, and of tracking.
_OF_FORM = {
    *("shape", "size", "numel", "nelement", "ndim", "dim", "ndimension", "__len__"),
    *("dtype", "device", "layout", "itemsize", "element_size", "get_device", "is_floating_point", "is_complex"),
    *("is_signed", "is_cpu", "is_cuda", "is_meta", "is_sparse", "is_quantized", "is_nested", "is_mkldnn"),
}
_TRACKING = {
    *("requires_grad", "requires_grad=", "requires_grad_", "grad", "is_leaf", "grad_fn", "retains_grad", "__hash__")
}
_CONVERSIONS = {"to", "half", "float", "double", "bfloat16", "cpu", "cuda"}


class LazyCell:
    """The start values that a lazy parameter and its clones share: drawn once, when the first of them is used."""

    def __init__(self, init: Init) -> None:
        self.init = init
        self.lock = threading.RLock()  # clones on several threads are to get the values of one draw
        # Weakly: clones that are gone need no values.
        self.waiting: list[weakref.ref[LazyParameter]] = []
        self.drawing: int | None = None  # the thread that the initializer runs in

    def initialize(self, first: "LazyParameter") -> None:
        """Draw the values and give every parameter that waits for them its own copy; if it fails, all stay lazy."""
        if self.drawing == threading.get_ident():
            raise ModuleTreeError(
                f"the initializer of a lazy parameter of shape {list(first.shape)} used that parameter"
            )
        with self.lock:
            if not is_lazy(first) or first._form.is_meta:  # on meta there are no values to share
                return
            device = first._form.device
            everyone = [param for reference in self.waiting if (param := reference()) is not None]

            def draw() -> None:
                self.drawing = threading.get_ident()
                values = _checked(self.init(device), first._form)
                copies = [values.to(it._form.device, it._form.dtype, copy=it is not first) for it in everyone]
                for param, start in zip(everyone, copies, strict=True):
                    _fill(param, start)

            try:
                _in_a_thread(draw, device)
            finally:
                self.drawing = None


def _in_a_thread(function: Callable[[], None], device: torch.device) -> None:
    """Call `function` in a thread of its own, on the caller's stream of `device`.

    There it makes plain tensors that can be trained, whatever the caller is in: vmap, inference mode, fake tensors, a
    default device, tracing. All of these belong to one thread; the random generators belong to all.
    """
    stream = torch.cuda.current_stream(device) if device.type == "cuda" else None

    def run() -> None:
        with torch.cuda.stream(stream), torch.no_grad():
            function()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(run).result()


class LazyParameter(nn.Parameter):
    """A parameter without values: it knows its shape and initializes itself when torch first computes with it.

    Then it becomes a plain `nn.Parameter`, the same object, so that an optimizer made before goes on with it. What is
    asked of it before:

    * Shape, dtype, device, `requires_grad`, printing, comparing by `is`, `parameters()`, optimizers' constructors:
      answered, no values are made.
    * Anything that reads or writes values, `state_dict()`, `valid()`, pickle, `copy.copy`, wrapping in
      `DistributedDataParallel` or `fully_shard`, and compiling or exporting a module: it is initialized.
    * `load_state_dict`, `burnlike.record.load` and `copy_` under `torch.no_grad()`: it takes those values and the
      initializer never runs.
    * `module.to(device or dtype)`, also to meta and back, and `to_empty`: it stays lazy and will be made there. On
      meta torch computes with it as with any tensor there, and it stays lazy.
    * A deep copy (`clone`, `fork`): it stays lazy, and both get the same start values, whichever is used first, also
      in several threads; which of them require grad is each one's own affair.
    * As an argument of `torch.func.grad` or `vmap`, and in `torch.jit`, it is NaN: call
      `burnlike.module.initialize(module)` before. `nn.Parameter(lazy)` is refused by torch: give it `lazy.detach()`.
    """

    _cell: LazyCell
    _form: Tensor

    def __new__(
        cls, cell: LazyCell, shape: Sequence[int], device: torch.device, dtype: torch.dtype, requires_grad: bool = True
    ) -> "LazyParameter":
        form = _nan(shape, dtype, device)
        # Memory on meta could not be exchanged for other memory.
        lazy = super().__new__(cls, _nan(shape, dtype, torch.device("cpu")) if form.is_meta else form, requires_grad)
        lazy._cell = cell
        lazy._form = form
        with cell.lock:
            cell.waiting.append(weakref.ref(lazy))
        return lazy

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer what is known, take values that are given, and initialize before anything else."""
        kwargs = kwargs or {}
        if torch.compiler.is_dynamo_compiling():  # it has values: torch asked before it began to trace
            return super().__torch_function__(func, types, args, kwargs)
        name = getattr(func, "__name__", "")
        if name in ("__get__", "__set__"):
            name = func.__self__.__name__ + ("=" if name == "__set__" else "")
        form = vars(args[0]).get("_form") if args and is_lazy(args[0]) else None
        if form is not None and not torch.compiler.is_compiling():
            if name in _OF_FORM:
                return func(form, *args[1:], **kwargs)
            if name in _TRACKING or (name == "grad=" and args[1] is None):
                return super().__torch_function__(func, types, args, kwargs)
            handler = _HANDLERS.get("to" if name in _CONVERSIONS else name)
            if handler is not None:
                return handler(func, *args, **kwargs)
        return func(*tree_map(_with_values, args), **tree_map(_with_values, kwargs))

    def set_(self, *args: Any, **kwargs: Any) -> Tensor:
        """As `Tensor.set_`, which torch does not pass through `__torch_function__`; parametrizations call it."""
        for tensor in (self, *args, *kwargs.values()):
            initialize_param(tensor)
        return nn.Parameter.set_(self, *args, **kwargs)

    def __repr__(self, **_: Any) -> str:
        return f"LazyParameter(shape={list(self.shape)}, dtype={self.dtype}, device='{self.device}')"

    def __deepcopy__(self, memo: dict[int, Any]) -> nn.Parameter:
        if (cell := _cell_of(self)) is None:
            return nn.Parameter.__deepcopy__(self, memo)  # pyright: ignore[reportReturnType]
        memo[id(self)] = copied = LazyParameter(cell, self.shape, self.device, self.dtype, self.requires_grad)
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        return nn.Parameter(_with_values(self).detach(), self.requires_grad).__reduce_ex__(protocol)


def is_lazy(tensor: object) -> bool:
    return type(tensor) is LazyParameter


def initialize_param(tensor: object) -> None:
    """Give a lazy parameter its values, but on meta; anything else is left as it is."""
    if (cell := _cell_of(tensor)) is not None:
        cell.initialize(tensor)  # pyright: ignore[reportArgumentType]


def _with_values(value: Any) -> Any:
    """The tensor that torch is to compute with: `value` itself, initialized; or its form for one on meta."""
    initialize_param(value)
    return value._form.requires_grad_(value.requires_grad) if is_lazy(value) else value


def fill_lazy(param: LazyParameter, values: Tensor) -> None:
    """Make `param` a plain parameter, the same object, whose memory is that of `values`; on meta it stays lazy."""
    if (cell := _cell_of(param)) is not None:
        with cell.lock, torch.inference_mode(False), torch.no_grad():
            _fill(param, values)


def _fill(param: LazyParameter, values: Tensor) -> None:
    """As `fill_lazy`, while the lock is held."""
    if (cell := _cell_of(param)) is None:
        return
    if values.is_meta:
        param._form = values.detach()
        return
    _set_memory(param, values.detach())
    # The class comes last: as long as it is this one, other threads wait for the lock.
    param.__class__ = nn.Parameter  # pyright: ignore[reportAttributeAccessIssue]
    del param._cell, param._form
    cell.waiting = [other for other in cell.waiting if other() is not None and other() is not param]


def _set_memory(param: LazyParameter, values: Tensor) -> None:
    """`param.data = values`, which `__torch_function__` does not see."""
    nn.Parameter.__torch_function__(Tensor.data.__set__, (), (param, values), {})  # pyright: ignore


def mapped_lazy(param: LazyParameter, mapper: Callable[[Tensor], Tensor]) -> LazyParameter:
    """A lazy parameter of its own, whose start values are what `mapper` makes of those of `param`."""
    init = param._cell.init
    with torch.no_grad():
        shape = mapper(torch.empty(param.shape, dtype=param.dtype, device="meta")).shape
    cell = LazyCell(lambda device: mapper(init(device)))
    return LazyParameter(cell, shape, param.device, param.dtype, param.requires_grad)


def _cell_of(tensor: object) -> LazyCell | None:
    # Another thread may be turning it into a plain parameter, so the class is no proof that there is a cell.
    return tensor.__dict__.get("_cell") if type(tensor) is LazyParameter else None


def _nan(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False):
        return torch.full((), torch.nan, dtype=dtype, device=device).expand(tuple(shape))


def _checked(values: object, form: Tensor) -> Tensor:
    """The initializer's result, if a parameter of this form can hold it."""
    gave, still = "the initializer of a lazy parameter gave", "; the parameter is still uninitialized"
    if not isinstance(values, Tensor):
        raise TypeError(f"{gave} {type(values).__name__}, expected a torch.Tensor{still}")
    if values.shape != form.shape:
        raise ShapeError(f"{gave} shape {list(values.shape)}, expected {list(form.shape)}{still}")
    if values.is_floating_point() != form.is_floating_point() or values.is_complex() != form.is_complex():
        raise DTypeError(f"{gave} {values.dtype}, expected {form.dtype}{still}")
    return values.detach()


def _copy(func: Any, param: LazyParameter, source: Any, *args: Any, **kwargs: Any) -> Tensor:
    initialize_param(source)
    if torch.is_grad_enabled() and param.requires_grad:
        initialize_param(param)  # torch's own error
    if not is_lazy(param):
        return func(param, source, *args, **kwargs)
    with torch.inference_mode(False), torch.no_grad():
        fill_lazy(param, torch.empty(param.shape, dtype=param.dtype, device=param.device).copy_(source))
    return param


def _set_data(func: Any, param: LazyParameter, value: Any) -> None:
    cell = _cell_of(param)
    if cell is None or _cell_of(value) is not cell:
        initialize_param(value)
        fill_lazy(param, value)
        return
    # The conversion of a lazy module: the parameter goes on waiting, for values of another type or device.
    with cell.lock:
        if is_lazy(param):
            param._form = value._form
            if not param.is_meta:
                _set_memory(param, param._form)


def _convert(func: Any, param: LazyParameter, *args: Any, **kwargs: Any) -> Tensor:
    swaps = torch.__future__.get_swap_module_params_on_conversion()
    cell = _cell_of(param)
    # torch then needs the values: for its graph, to exchange tensors, or to order their memory.
    if torch.is_grad_enabled() or swaps or "memory_format" in kwargs or cell is None:
        return func(_with_values(param), *args, **kwargs)
    like = torch.empty(0, dtype=param.dtype, device=param.device)
    try:
        converted = func(like, *args, **kwargs)
    except NotImplementedError:  # from meta, where torch has nothing to copy; here there are no values to be lost
        converted = func(like.new_empty(0, device="cpu"), *args, **kwargs)
    if converted is like:
        return param
    return LazyParameter(cell, param.shape, converted.device, converted.dtype, requires_grad=False)


def _empty(func: Any, param: LazyParameter, *args: Any, **kwargs: Any) -> Tensor:
    if kwargs.keys() == {"device"} and not args:  # `to_empty`: better lazy than whatever the memory holds
        return _convert(func, param, **kwargs)
    return func(_with_values(param), *args, **kwargs)


_HANDLERS: dict[str, Callable[..., Any]] = {
    "copy_": _copy,
    "data=": _set_data,
    "to": _convert,
    "empty_like": _empty,
    TAKES_DATA: lambda func, param, other: True,  # `data=` takes any
}
