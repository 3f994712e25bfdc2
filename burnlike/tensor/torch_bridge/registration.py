"""Registers Tensor with torch: as a pytree node, for export, DataLoader's collate, `torch.load(weights_only=True)`."""

import sys
from typing import Any

import torch
from torch.utils import checkpoint

from ..._torch_compat import pytree
from ..._torch_compat.collate import collate, default_collate_fn_map
from ...backend import Autodiff, Backend, Cpu, Cuda
from ...errors import TensorTypeError
from ..core.base import TensorBase
from ..core.dtypes import as_dtype, dtype_name
from ..core.spec import Spec, family_of, find_spec
from .interop import rebuild


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
    return spec.tensor(collate([it.inner for it in batch], collate_fn_map=collate_fn_map), spec.backend)


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
