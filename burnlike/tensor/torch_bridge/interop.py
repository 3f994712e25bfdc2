"""Tensor for PyTorch, NumPy and Python: functions, DLPack, pickle, copies, pinned memory, pytrees, export."""

import copy
import ctypes
import sys
from typing import Any

import torch
from torch.utils import checkpoint

from ..._torch_compat import pytree
from ..._torch_compat.collate import collate, default_collate_fn_map
from ...backend import Autodiff, Backend, Cpu, Cuda
from ...errors import TensorAttributeError, TensorTypeError, TensorValueError
from ..core.base import B, D, K, Tensor, TensorBase, wrap
from ..core.dtypes import as_dtype, dtype_name
from ..core.spec import Spec, family_of, find_spec, title
from .torch_function import dispatch

_DLPACK_NAME = b"dltensor_versioned"
# DLManagedTensorVersioned of DLPack 1.0: version (two uint32), manager_ctx, deleter, flags (uint64), then the tensor.
_FLAGS_OFFSET = 8 + 2 * ctypes.sizeof(ctypes.c_void_p)
_READ_ONLY = 1
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _mark_read_only(capsule: Any) -> Any:
    """`capsule` with the flag; one of DLPack before 1.0, which has no flags, as it is."""
    if _is_valid(capsule, _DLPACK_NAME):
        ctypes.c_uint64.from_address(_pointer(capsule, _DLPACK_NAME) + _FLAGS_OFFSET).value |= _READ_ONLY
    return capsule


# What torch's own layers read of their input.
_METADATA = (
    *("dim", "element_size", "grad_fn", "is_complex", "is_contiguous", "is_cuda", "is_floating_point", "is_leaf"),
    *("is_meta", "is_nested", "is_sparse", "layout", "ndim", "ndimension", "nelement", "numel", "requires_grad"),
    *("size", "stride"),
)


class TorchMethods(TensorBase[B, D, K]):
    """Methods that PyTorch, NumPy and Python call on a tensor."""

    __slots__ = ()

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return dispatch(func, args, kwargs or {})

    def clone(self) -> "Tensor[B, D, K]":
        """Another handle of the same tensor. `[..]`. Torch: none.
        Differs: shares the storage, as nothing ever writes to it; `copy.deepcopy(x)` copies.
        """
        return wrap(self.inner, self.spec)

    def __copy__(self) -> "Tensor[B, D, K]":
        return wrap(self.inner, self.spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Tensor[B, D, K]":
        try:
            return wrap(copy.deepcopy(_finished(self), memo), self.spec)
        except RuntimeError as error:
            raise TensorValueError(
                "Deepcopy", "the result of a tracked operation can't be copied with its history; detach() it first"
            ) from error

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild, (_finished(self), self.spec.backend)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if self.inner.dtype is torch.bfloat16:
            raise TensorTypeError("Array", "NumPy has no bfloat16; use cast(torch.float32)")
        array = _finished(self).detach().cpu().numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise TensorValueError("Array", f"{array.dtype} can't become {dtype} without a copy")
            return array.astype(dtype)
        if copy:
            return array.copy()
        array.flags.writeable = False  # it shares the tensor's memory
        return array

    def numpy(self) -> Any:
        """The elements as a NumPy array, read-only where it shares the tensor's memory. `[..]`. Torch: `x.numpy()`.
        Differs: read-only, as a Tensor never changes; `.copy()` gives one to write to.
        """
        return self.__array__()

    def __dlpack__(self, *, copy: bool | None = None, **kwargs: Any) -> Any:
        # Read-only for those who ask for a version of the protocol that can say so. torch does, but ignores it.
        capsule = _finished(self).detach().__dlpack__(copy=copy, **kwargs)
        return capsule if copy else _mark_read_only(capsule)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.inner.__dlpack_device__()

    def pin_memory(self, device: Any = None) -> "Tensor[B, D, K]":
        """The same values in page-locked memory, as DataLoader asks for. `[..]`. Torch: `x.pin_memory()`."""
        return wrap(_finished(self).pin_memory(), self.spec)

    def __dir__(self) -> list[str]:
        return [name for name in object.__dir__(self) if not isinstance(getattr(type(self), name, None), _Refused)]

    def __len__(self) -> int:
        return self.inner.shape[0]

    def __getitem__(self, index: Any) -> Any:
        # What it drops depends on the values of the index, so no checker could tell the rank of the result.
        if isinstance(index, int):
            use = f"select_dim(0, {index}), which drops the dimension, or slice([{index}]), which keeps it"
        elif isinstance(index, torch.Tensor | TensorBase | list):
            use = "select(0, indices), gather, or mask_fill and mask_where with a mask"
        else:
            use = "slice([...]), which takes the same and keeps each dimension, select_dim(dim, index) or narrow(...)"
        raise TensorValueError("Slice", f"a Tensor has no x[...]; use {use}")

    def __iter__(self) -> Any:
        raise TensorValueError("Iter Dim", "a Tensor is not iterable; use iter_dim(dim), which keeps the dimension")


def _finished(tensor: TensorBase[Any, Any, Any]) -> torch.Tensor:
    """The torch tensor, whose elements are there: a backend of one's own may compute them later."""
    if not tensor.spec.torchs:
        tensor.spec.backend.sync()
    return tensor.inner


def rebuild(inner: torch.Tensor, backend: "Backend") -> "Tensor[Any, Any, Any]":
    """A Tensor from its torch tensor and its backend: what pickle and `torch.load` call."""
    from ..tensor import Tensor

    return Tensor(inner, backend)


class _Forwarded:
    """An attribute that is the torch tensor's."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, tensor: Any, owner: Any = None) -> Any:
        return self if tensor is None else getattr(tensor.inner, self.name)


class _Refused:
    """A name of torch's tensors that a Tensor lacks: says what to do. A `__getattr__` would slow every attribute."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, tensor: Any, owner: Any = None) -> Any:
        if tensor is None:
            return self
        name = self.name
        if name == "requires_grad_":
            raise TensorAttributeError(
                "Requires Grad",
                "a Tensor never changes; require_grad() gives a leaf, torch.nn.Parameter(x.inner) a parameter",
            )
        if name.endswith("_"):
            raise TensorAttributeError(title(name), f"{name} writes into a tensor, and a Tensor never changes")
        raise TensorAttributeError(
            title(name),
            f"a Tensor has no {name}; torch's is x.inner.{name}, docs/tensor_api.md lists what there is, and"
            " lift(function) runs code or a layer that was written for torch tensors",
        )


# Set when the class is made, not defined in it: type checkers would allow what is defined.
_NO_OPERATORS = {
    "__setitem__": "a Tensor never changes; slice_assign, slice_fill, select_assign and mask_fill give a new one",
    "__floordiv__": "a Tensor has no x // y; use (x / y).floor(), and for Int x / y, which truncates",
    "__divmod__": "a Tensor has no divmod; use (x / y).floor(), for Int x / y, which truncates, and x % y",
    "__lshift__": "a Tensor has no x << y; use bitwise_left_shift",
    "__rshift__": "a Tensor has no x >> y; use bitwise_right_shift",
    "__pos__": "a Tensor has no +x; it would be x",
    "__round__": "use x.round()",
}
_NO_OPERATORS |= {f"__r{name[2:]}": _NO_OPERATORS[name] for name in ("__floordiv__", "__divmod__")}


def _no_operator(name: str, advice: str) -> Any:
    def refuse(*_args: Any) -> Any:
        raise TensorTypeError(title(name), advice)

    return refuse


def answer_to_torch_names(tensor: type[TensorBase[Any, Any, Any]]) -> None:
    """Give the class Tensor an answer to each public name of torch's tensors that it does not define itself."""
    for name in dir(torch.Tensor):
        if not name.startswith("_") and not hasattr(tensor, name):
            setattr(tensor, name, _Forwarded(name) if name in _METADATA else _Refused(name))
    for name, advice in _NO_OPERATORS.items():
        setattr(tensor, name, _no_operator(name, advice))


def _flatten(tensor: Any) -> tuple[list[Any], Spec]:
    if tensor.spec.tracks and not torch.is_grad_enabled() and not torch.compiler.is_compiling():
        _refuse_reentrant_checkpoint()
    return [tensor.inner], tensor.spec


def _refuse_reentrant_checkpoint() -> None:
    """Reentrant checkpointing hands typed tensors past autograd, and their gradients would be lost without a word.

    This is the one place where it calls into ours: it flattens the arguments to find their device.
    """
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename != checkpoint.__file__:
        frame = frame.f_back
    while frame is not None and frame.f_code.co_filename == checkpoint.__file__:
        if frame.f_code is checkpoint.CheckpointFunction.forward.__code__:
            raise TensorTypeError("Checkpoint", "reentrant checkpointing loses gradients; pass use_reentrant=False")
        frame = frame.f_back


def _flatten_with_keys(tensor: Any) -> tuple[list[tuple[Any, Any]], Spec]:
    return [(pytree.GetAttrKey("inner"), tensor.inner)], tensor.spec


def _unflatten(leaves: Any, spec: Spec) -> Any:
    (inner,) = leaves
    if isinstance(inner, TensorBase):
        return inner  # a Jacobian's tree is that of the result with that of the input in its leaves
    if isinstance(inner, torch.Tensor) and (inner.dtype is not spec.dtype or inner.ndim != spec.rank):
        if inner.ndim == 0:
            raise TensorTypeError(
                "Tensor",
                "an element of a tensor of rank 1 has rank 0, which has no typed form; under vmap use"
                " x.unsqueeze_dim(1), whose rows have rank 1",
            )
        spec = find_spec(inner, spec.family)  # vmap takes a dimension away, tree_map may change the dtype
    out = object.__new__(spec.tensor)
    out.inner, out.spec = inner, spec
    return out


def _collate(batch: Any, *, collate_fn_map: Any = None) -> Any:
    spec: Spec = batch[0].spec
    return spec.tensor(collate([_finished(it) for it in batch], collate_fn_map=collate_fn_map), spec.backend)


def register(tensor: type[TensorBase[Any, Any, Any]]) -> None:
    """Tell torch of the class Tensor; once, when it is made."""
    pytree.register_pytree_node(
        tensor,
        _flatten,
        _unflatten,
        flatten_with_keys_fn=_flatten_with_keys,
        serialized_type_name="burnlike.tensor.Tensor",
        to_dumpable_context=_dump_spec,
        from_dumpable_context=_load_spec,
    )
    default_collate_fn_map[tensor] = _collate
    torch.serialization.add_safe_globals([rebuild, Autodiff, Cpu, Cuda])


def _dump_spec(spec: Spec) -> list[Any]:
    """`[backend, element type, rank]`, which `json.dumps` takes; the backend must be one of burnlike's."""
    return [_dump_backend(spec.backend), dtype_name(spec.dtype), spec.rank]


def _load_spec(dumped: Any) -> Spec:
    """The Spec that `_dump_spec` wrote."""
    backend, dtype, rank = dumped
    return family_of(_load_backend(backend))[as_dtype("Export", dtype)][rank]


def _dump_backend(backend: Any) -> list[Any]:
    if isinstance(backend, Autodiff):
        return ["Autodiff", _dump_backend(backend.inner_backend)]
    if type(backend) not in (Cpu, Cuda):
        raise TensorTypeError(
            "Export", f"a program with tensors of {backend!r} can't be saved, only Cpu, Cuda and Autodiff of them can"
        )
    dtypes = [dtype_name(backend.float_dtype), dtype_name(backend.int_dtype)]
    return ["Cpu", *dtypes] if type(backend) is Cpu else ["Cuda", backend.device.index, *dtypes]


def _load_backend(dumped: list[Any]) -> Backend:
    name, *rest = dumped
    if name == "Autodiff":
        return Autodiff(_load_backend(rest[0]))
    *index, float_dtype, int_dtype = rest
    return {"Cpu": Cpu, "Cuda": Cuda}[name](*index, as_dtype("Export", float_dtype), as_dtype("Export", int_dtype))
