"""Parameters that know their shape and get their values at first use."""

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from ...errors import DTypeError, ModuleTreeError, ShapeError
from .torch_internals import (
    as_plain_tensors,
    exchange,
    is_shared_with_cpp,
    is_traced,
    outside_of_transforms,
    trace_again,
    traced_modules,
)

Init = Callable[[torch.device], Tensor]

# What torch asks a tensor without need of its values.
_ANSWERED = {
    *("shape", "size", "stride", "numel", "nelement", "ndim", "dim", "ndimension", "__len__", "is_contiguous"),
    *("dtype", "device", "layout", "itemsize", "element_size", "get_device", "is_floating_point", "is_complex"),
    *("is_signed", "is_cpu", "is_cuda", "is_meta", "is_sparse", "is_quantized", "is_nested", "is_mkldnn", "__hash__"),
    *("requires_grad", "requires_grad=", "requires_grad_", "grad", "is_leaf", "grad_fn", "retains_grad"),
}
_CONVERSIONS = {"to", "half", "float", "double", "bfloat16", "cpu", "cuda"}


class LazyCell:
    """The start values that a lazy parameter and its clones share: drawn once, when the first of them is used."""

    def __init__(self, init: Init) -> None:
        self.init = init
        self.lock = threading.RLock()
        self.waiting: list[weakref.ref[LazyParameter]] = []

    def initialize(self, first: "LazyParameter") -> None:
        """Draw the values and give every parameter that waits for them its own copy; if it fails, all stay lazy."""
        with self.lock:
            if not is_lazy(first):
                return
            if first.is_meta:  # it has no values to share
                fill_lazy(first, _on_meta(first))
                return
            everyone = [param for reference in self.waiting if (param := reference()) is not None]
            for param in everyone:
                check_free(param)
            with outside_of_transforms():
                values = _checked(self.init(first.device), first)
                for param in everyone:
                    fill_lazy(param, values.to(param.device, param.dtype, copy=param is not first))


class LazyParameter(nn.Parameter):
    """A parameter without values: it knows its shape and initializes itself when torch first computes with it.

    Then it becomes a plain `nn.Parameter`, the same object, so that an optimizer made before goes on with it. What is
    asked of it before:

    * Shape, dtype, device, `requires_grad`, printing, comparing by `is`, `parameters()`, optimizers' constructors:
      answered, no values are made.
    * Anything that reads or writes values, `state_dict()`, `valid()`, pickle, `copy.copy`, wrapping in
      `DistributedDataParallel` or `fully_shard`, and the first call of a compiled module: it is initialized.
    * `load_state_dict`, `burnlike.record.load` and `copy_` under `torch.no_grad()`: it takes those values and the
      initializer never runs.
    * `module.to(device or dtype)`, also to meta and back, and `to_empty`: it stays lazy and will be made there.
    * A deep copy (`clone`, `fork`): it stays lazy, and both get the same start values, whichever is used first; which
      of them require grad is each one's own affair.
    * Threads: the initializer runs once.
    * As an argument of `torch.func.grad` or `vmap`, or of a `torch.autograd.Function`, in `torch.jit.trace` and
      `script` (which loses the message), and within `DistributedDataParallel(init_sync=False)`, where it can't be
      replaced: ModuleTreeError, which asks for `burnlike.module.initialize(module)`. `nn.Parameter(lazy)` is refused
      by torch: give it `lazy.detach()`.
    """

    _cell: LazyCell

    def __new__(
        cls,
        cell: LazyCell,
        shape: Sequence[int],
        device: torch.device,
        dtype: torch.dtype,
        requires_grad: bool = True,
    ) -> "LazyParameter":
        """Make the placeholder, which has no memory."""
        made = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device=device, requires_grad=requires_grad)
        made._cell = cell
        with cell.lock:
            cell.waiting.append(weakref.ref(made))
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer what is known, take values that are given, and initialize before anything else."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in ("__get__", "__set__"):
            name = func.__self__.__name__ + ("=" if name == "__set__" else "")
        if args and is_lazy(args[0]):
            if name in _ANSWERED or (name == "grad=" and args[1] is None):
                with as_plain_tensors():
                    return func(*args, **kwargs)
            handler = _HANDLERS.get("to" if name in _CONVERSIONS else name)
            if handler is not None:
                return handler(func, *args, **kwargs)
        for leaf in tree_leaves((args, kwargs)):
            initialize_param(leaf)
        return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Refuse what reached torch's kernels without passing `__torch_function__`: there are no values to give."""
        raise ModuleTreeError(
            f"{func} was asked for a parameter that has no values yet, where it can't be given any (an argument of"
            " torch.func.grad or vmap, or a C++ program); call burnlike.module.initialize(module) first"
        )

    @property
    def __tensor_flatten__(self) -> Any:
        """Not there. It is the first that torch.compile asks of a tensor it meets: so it begins again, with values."""
        if is_traced():
            initialize_param(self)
            for module in traced_modules():  # so that it begins again only once
                for param in module.parameters():
                    initialize_param(param)
            raise trace_again("a lazy parameter was initialized")
        raise AttributeError("a lazy parameter is not made of other tensors")

    def set_(self, *args: Any, **kwargs: Any) -> Tensor:
        """As `Tensor.set_`, which torch does not pass through `__torch_function__`; parametrizations call it."""
        for tensor in (self, *args, *kwargs.values()):
            initialize_param(tensor)
        return self.set_(*args, **kwargs)  # of nn.Parameter by now

    def __repr__(self, **_: Any) -> str:
        return f"LazyParameter(shape={list(self.shape)}, dtype={self.dtype}, device='{self.device}')"

    def __deepcopy__(self, memo: dict[int, Any]) -> nn.Parameter:
        cell = _cell_of(self)
        if cell is None:
            return nn.Parameter.__deepcopy__(self, memo)  # pyright: ignore[reportReturnType]
        memo[id(self)] = copied = _like(self, cell)
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        initialize_param(self)
        return self.__reduce_ex__(protocol)  # it is an nn.Parameter by now


def is_lazy(tensor: object) -> bool:
    """Whether `tensor` is a parameter that has no values yet."""
    return type(tensor) is LazyParameter


def initialize_param(tensor: object) -> None:
    """Give a lazy parameter its values; anything else is left as it is."""
    if (cell := _cell_of(tensor)) is not None:
        cell.initialize(tensor)  # pyright: ignore[reportArgumentType]


def fill_lazy(param: LazyParameter, values: Tensor) -> None:
    """Make `param` a plain parameter, the same object, whose memory is that of `values`.

    Raises:
        ModuleTreeError: C++ code holds the placeholder and would go on with it.
    """
    cell = _cell_of(param)
    if cell is None:
        return
    with cell.lock, torch.no_grad(), as_plain_tensors():
        check_free(param)
        exchange(param, nn.Parameter(values.detach(), requires_grad=param.requires_grad))
        # The class comes last: as long as it is this one, other threads wait for the lock.
        param.__class__ = nn.Parameter  # pyright: ignore[reportAttributeAccessIssue]
        del param._cell
        cell.waiting = [found for found in cell.waiting if found() is not None and found() is not param]


def mapped_lazy(param: LazyParameter, mapper: Callable[[Tensor], Tensor]) -> LazyParameter:
    """A lazy parameter of its own, whose start values are what `mapper` makes of those of `param`."""
    init = param._cell.init
    with torch.no_grad():
        shape = mapper(_on_meta(param)).shape
    return LazyParameter(
        LazyCell(lambda device: mapper(init(device))), shape, param.device, param.dtype, param.requires_grad
    )


def _cell_of(tensor: object) -> LazyCell | None:
    # Another thread may be turning it into a plain parameter, so the class is no proof that there is a cell.
    return tensor.__dict__.get("_cell") if type(tensor) is LazyParameter else None


def _like(param: LazyParameter, cell: LazyCell) -> LazyParameter:
    return LazyParameter(cell, param.shape, param.device, param.dtype, param.requires_grad)


def _on_meta(param: LazyParameter) -> Tensor:
    """A meta tensor of the shape and type of `param`."""
    return torch.empty(param.shape, dtype=param.dtype, device="meta")


def check_free(param: Tensor) -> None:
    """Raise where C++ code holds the placeholder of a lazy parameter, and would go on with that when it has values.

    Raises:
        ModuleTreeError: it does.
    """
    if is_lazy(param) and is_shared_with_cpp(param):
        raise ModuleTreeError(
            f"a lazy parameter of shape {list(param.shape)} is held by C++ code (DistributedDataParallel, a graph of"
            " autograd) and can't get its values any more; call burnlike.module.initialize(module) before"
        )


def _checked(values: object, param: LazyParameter) -> Tensor:
    """The initializer's result, if the parameter can hold it."""
    still = "; the parameter is still uninitialized"
    if not isinstance(values, Tensor):
        raise TypeError(
            f"the initializer of a lazy parameter gave {type(values).__name__}, expected a torch.Tensor{still}"
        )
    if values.shape != param.shape:
        raise ShapeError(
            f"the initializer of a lazy parameter gave shape {list(values.shape)}, expected {list(param.shape)}{still}"
        )
    if values.is_floating_point() != param.is_floating_point() or values.is_complex() != param.is_complex():
        raise DTypeError(f"the initializer of a lazy parameter gave {values.dtype}, expected {param.dtype}{still}")
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
    with cell.lock, as_plain_tensors():
        check_free(param)
        other = _like(value, cell)
        other.requires_grad_(param.requires_grad)
        exchange(param, other)


def _convert(func: Any, param: LazyParameter, *args: Any, **kwargs: Any) -> Tensor:
    swaps = torch.__future__.get_swap_module_params_on_conversion()
    cell = _cell_of(param)
    if torch.is_grad_enabled() or swaps or "memory_format" in kwargs or cell is None:
        initialize_param(param)
        return func(param, *args, **kwargs)
    like = torch.empty(0, dtype=param.dtype, device=param.device)
    try:
        made = func(like, *args, **kwargs)
    except NotImplementedError:  # from meta, where torch has nothing to copy; here there are no values to be lost
        made = func(like.new_empty(0, device="cpu"), *args, **kwargs)
    return param if made is like else LazyParameter(cell, param.shape, made.device, made.dtype, requires_grad=False)


def _empty(func: Any, param: LazyParameter, *args: Any, **kwargs: Any) -> Tensor:
    if kwargs.keys() == {"device"} and not args:  # `to_empty`: better lazy than whatever the memory holds
        return _convert(func, param, **kwargs)
    initialize_param(param)
    return func(param, *args, **kwargs)


_HANDLERS: dict[str, Callable[..., Any]] = {
    "copy_": _copy,
    "data=": _set_data,
    "to": _convert,
    "empty_like": _empty,
    "_has_compatible_shallow_copy_type": lambda func, param, other: True,  # `data=` takes any
}
