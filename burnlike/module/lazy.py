"""Parameters that know their shape and get their values at first use."""

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ShapeError

Init = Callable[[torch.device], Tensor]

# What torch asks a tensor without need of its values; the cell answers for the shape, the placeholder for the rest.
_SHAPE_ANSWERS: dict[str, Callable[..., Any]] = {
    "shape": lambda shape: shape,
    "size": lambda shape, dim=None: shape if dim is None else shape[dim],
    "numel": lambda shape: shape.numel(),
    "nelement": lambda shape: shape.numel(),
    "ndim": lambda shape: len(shape),
    "dim": lambda shape: len(shape),
    "__len__": lambda shape: shape[0],
}
_PLACEHOLDER_ANSWERS = {
    *("dtype", "device", "layout", "requires_grad", "requires_grad_", "grad", "grad_fn", "is_leaf", "is_meta"),
    *("is_cuda", "is_cpu", "is_sparse", "is_quantized", "is_floating_point", "is_complex", "__hash__"),
}


class LazyCell:
    """The one initialization that a lazy parameter and its clones share."""

    def __init__(self, init: Init, shape: Sequence[int]) -> None:
        self.init = init
        self.shape = torch.Size(shape)
        self.lock = threading.RLock()
        self.waiting: list[weakref.ref[LazyParameter]] = []

    def initialize(self, first: "LazyParameter") -> None:
        """Draw the values once and give every parameter that waits for them its own copy."""
        with self.lock:
            if not is_lazy(first):
                return
            with torch.no_grad():
                values = self.init(_placeholder(first).device).detach()
            if values.shape != self.shape:
                raise ShapeError(
                    f"the initializer of a lazy parameter gave shape {list(values.shape)}, expected {list(self.shape)};"
                    " the parameter is still uninitialized"
                )
            for reference in self.waiting:
                param = reference()
                if param is not None and is_lazy(param):
                    fill_lazy(param, values if param is first else values.clone())
            self.waiting.clear()


class LazyParameter(nn.Parameter):
    """A parameter without values: it knows its shape and initializes itself when torch first computes with it.

    Then it becomes a plain `nn.Parameter`, the same object, so that an optimizer made before keeps its reference.
    Shape, dtype, device and `requires_grad` answer without initializing.
    """

    _cell: LazyCell

    def __new__(
        cls, cell: LazyCell, device: torch.device, dtype: torch.dtype, requires_grad: bool = True
    ) -> "LazyParameter":
        """Make the placeholder, which has no memory yet."""
        made = torch.Tensor._make_subclass(cls, torch.empty(0, dtype=dtype, device=device), requires_grad)
        made._cell = cell
        cell.waiting.append(weakref.ref(made))
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer what is known, and initialize before anything else."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in ("__get__", "__set__"):
            name = func.__self__.__name__
        if isinstance(args[0], LazyParameter):
            if name in _SHAPE_ANSWERS:
                return _SHAPE_ANSWERS[name](args[0]._cell.shape, *args[1:], **kwargs)
            if name in _PLACEHOLDER_ANSWERS:
                with torch._C.DisableTorchFunctionSubclass():
                    return func(*args, **kwargs)
        for value in (*args, *kwargs.values()):
            for leaf in value if isinstance(value, list | tuple) else (value,):
                if isinstance(leaf, LazyParameter):
                    leaf._cell.initialize(leaf)
        return func(*args, **kwargs)

    def __repr__(self, **_: Any) -> str:
        return f"LazyParameter(shape={list(self.shape)}, dtype={self.dtype}, device='{self.device}')"

    def __deepcopy__(self, memo: dict[int, Any]) -> "LazyParameter":
        copied = LazyParameter(self._cell, self.device, self.dtype, self.requires_grad)
        memo[id(self)] = copied
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        self._cell.initialize(self)
        return self.__reduce_ex__(protocol)  # it is an nn.Parameter by now


def is_lazy(tensor: Tensor) -> bool:
    """Whether `tensor` is a parameter that has no values yet."""
    return type(tensor) is LazyParameter


def initialize_param(tensor: Tensor) -> None:
    """Give a lazy parameter its values; any other tensor is left as it is."""
    if isinstance(tensor, LazyParameter):
        tensor._cell.initialize(tensor)


def fill_lazy(param: LazyParameter, values: Tensor) -> None:
    """Make `param` a plain parameter that holds `values`, in its own dtype and on its own device."""
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        param.data = values.to(param.device, param.dtype)
    del param._cell
    param.__class__ = nn.Parameter


def _placeholder(param: LazyParameter) -> Tensor:
    with torch._C.DisableTorchFunctionSubclass():
        return param.detach()
