"""Spec: backend, kind, rank and element type of a tensor, known without asking torch.

There is one Spec object for each combination, so that one identity comparison says whether two tensors fit together,
and an operation finds the type of its result by one attribute or one index.
"""

from types import ModuleType
from typing import Any

import torch

from ...backend import Backend, missing_ops, op_names
from ...backend.tables import functions_of
from ...backend.torch_backend import check_cuda, check_members, is_torchs
from ...errors import BackendError, TensorTypeError
from .dtypes import KINDS
from .kinds import MAX_RANK, Bool, Float, Int, Kind


class Spec:
    """The type of a tensor at run time."""

    __slots__ = (
        *("activation", "backend", "bool", "dtype", "family", "float", "index", "int", "kind", "module", "ops"),
        *("rank", "ranks", "tensor", "torchs", "tracks", "wide"),
    )

    backend: Backend  # where and with which functions its operations run
    kind: type[Kind]  # Float, Int or Bool
    rank: int  # the number of dimensions, 1 to 8
    dtype: torch.dtype
    ops: Any  # the backend's functions for this kind, by name; a name that the kind lacks raises
    module: Any  # the backend's functions for layers, linear algebra and signals
    activation: Any  # the backend's activation functions
    tracks: bool  # whether the backend is an Autodiff
    torchs: bool  # whether the backend's functions are torch's own, so that torch's need not go through its tables
    wide: bool  # True for what torch's functions, but for products, leave so in autocast: all but floats of 16 bits
    tensor: type[Any]  # the class of the tensors
    ranks: "tuple[Any, ...]"  # the Spec of each rank, all else the same
    family: "dict[torch.dtype, tuple[Any, ...]]"  # element type -> `ranks`, all of one backend
    float: "Spec"  # of this rank in the backend's float type
    int: "Spec"  # of this rank in the backend's int type
    index: "Spec"  # of this rank in int64, as torch's indices are
    bool: "Spec"  # of this rank of Bool

    def __repr__(self) -> str:
        return f"Spec({self.backend!r}, {self.kind.name}, rank {self.rank}, {self.dtype})"

    def __reduce__(self) -> "tuple[Any, ...]":
        # A copy is the one object that there is.
        return _find, (self.backend, self.dtype, self.rank)


def _find(backend: Backend, dtype: torch.dtype, rank: int) -> Spec:
    return family_of(backend)[dtype][rank]


Family = dict[torch.dtype, tuple[Any, ...]]
_FAMILIES: dict[type, dict[Backend, Family]] = {}
"""By class first: torch.compile of torch 2.11 fails at a dict that has any other backend with a hash of its own."""

_NO_FAMILIES: dict[Backend, Family] = {}


def family_of(backend: Backend) -> Family:
    """All Specs of a backend: element type -> Spec by rank (0 is None).

    Raises BackendError: the backend lacks an operation; the message names each.
    Raises DeviceError: this machine does not have the backend's CUDA device.
    """
    # Looked up by value, not kept on the backend: a backend of someone else's may have no room for it.
    family = _FAMILIES.get(type(backend), _NO_FAMILIES).get(backend)
    if family is None:
        if torch.compiler.is_compiling():
            raise BackendError(
                "a backend's first tensor can't be made inside of torch.compile;"
                " make one on it before, such as Tensor.zeros((1,), backend)"
            )
        families = _FAMILIES.setdefault(type(backend), {})
        family = families.setdefault(backend, _build(backend))  # all threads must have the same one
    return family


def find_spec(inner: torch.Tensor, family: Family) -> Spec:
    """The Spec of a torch tensor in a backend's family.

    Raises TensorTypeError: rank 0 or above 8, a dtype that has no kind, or a tensor that is not dense.
    """
    if inner.layout is not torch.strided or inner.is_nested:
        what = f"nested tensor of layout {inner.layout}" if inner.is_nested else f"tensor of layout {inner.layout}"
        raise TensorTypeError(
            "Tensor", f"expected a dense tensor, got a {what}; convert it: to_dense(), or to_padded_tensor(0.0)"
        )
    ranks = family.get(inner.dtype)
    if ranks is None:
        raise TensorTypeError("Tensor", f"{inner.dtype} has no kind; Float, Int and Bool tensors hold real numbers")
    if not 1 <= inner.ndim <= MAX_RANK:
        what = (
            "use reshape(1): the smallest rank is 1; t.item() is a number"
            if inner.ndim == 0
            else f"the largest is {MAX_RANK}"
        )
        raise TensorTypeError("Tensor", f"a torch tensor of rank {inner.ndim} has no typed form; {what}")
    return ranks[inner.ndim]


def _build(backend: Backend) -> Family:
    from ..tensor import Tensor

    check_members(backend)
    if not isinstance(backend, Backend):
        raise BackendError(f"expected a Backend, got {backend!r}; use burnlike.Cpu(), burnlike.Cuda() or your own")
    check_cuda(backend)
    missing = missing_ops(backend)
    if missing:
        raise BackendError(f"{backend!r} lacks {', '.join(missing)}; add them to its tables")
    tables = {Float: backend.float_ops, Int: backend.int_ops, Bool: backend.bool_ops}
    ops = {
        kind: _as_module({name: getattr(table, name, None) or _refusal(name, kind) for name in op_names()})
        for kind, table in tables.items()
    }
    module, activation = (_as_module(functions_of(table)) for table in (backend.module_ops, backend.activation_ops))
    torchs = is_torchs(backend)
    family: Family = {}
    for dtype, kind in KINDS.items():
        specs = tuple(_spec(backend, kind, rank, dtype, ops[kind], Tensor) for rank in range(1, MAX_RANK + 1))
        family[dtype] = (None, *specs)
    # In a second pass, as each refers to those of other element types.
    for ranks in family.values():
        for spec in ranks[1:]:
            spec.family, spec.ranks = family, ranks
            spec.module, spec.activation, spec.torchs = module, activation, torchs
            spec.wide = torchs and (spec.kind is not Float or spec.dtype.itemsize > 2)
            spec.float = family[backend.float_dtype][spec.rank]
            spec.int = family[backend.int_dtype][spec.rank]
            spec.index = family[torch.int64][spec.rank]
            spec.bool = family[torch.bool][spec.rank]
    return family


def _spec(backend: Backend, kind: type[Kind], rank: int, dtype: torch.dtype, ops: Any, tensor: type[Any]) -> Spec:
    spec = Spec()
    spec.backend, spec.kind, spec.rank, spec.dtype, spec.ops = backend, kind, rank, dtype, ops
    spec.tracks, spec.tensor = backend.ad_enabled, tensor
    return spec


def _as_module(functions: dict[str, Any]) -> Any:
    """A module with these functions: Python finds them in one as fast as in slots, and torch.compile traces it."""
    table = ModuleType("ops")
    vars(table).update(functions)
    return table


def _refusal(name: str, kind: type[Kind]) -> Any:
    advice = "convert first (float(), int(), bool() or cast(dtype))"
    if kind is Int and name in ("bool_and", "bool_or", "bool_xor", "bool_not"):
        advice = f"use {name.replace('bool', 'bitwise')}, or compare first"

    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise TensorTypeError(title(name), f"not defined for {kind.name} tensors; {advice}")

    return refuse


def title(name: str) -> str:
    """The operation's name as messages write it: `swap_dims` is `Swap Dims`."""
    return " ".join(word.capitalize() for word in name.strip("_").split("_"))
