"""Specs as JSON: what `torch.export.save` writes of a typed tensor among the inputs and outputs of a program."""

from typing import Any

import torch

from ..backend import Autodiff, Backend, Cpu, Cuda
from ..errors import TensorTypeError
from .spec import Spec, family_of


def dump_spec(spec: Spec) -> list[Any]:
    """`[backend, element type, rank]`, which `json.dumps` takes.

    Raises:
        TensorTypeError: the backend is not one of burnlike's.
    """
    return [_dump_backend(spec.backend), _dump_dtype(spec.dtype), spec.rank]


def load_spec(dumped: Any) -> Spec:
    """The Spec that `dump_spec` wrote."""
    backend, dtype, rank = dumped
    return family_of(_load_backend(backend))[getattr(torch, dtype)][rank]


def _dump_backend(backend: Any) -> list[Any]:
    if isinstance(backend, Autodiff):
        return ["Autodiff", _dump_backend(backend.inner_backend)]
    if type(backend) not in (Cpu, Cuda):
        raise TensorTypeError(
            "Export", f"a program with tensors of {backend!r} can't be saved, only Cpu, Cuda and Autodiff of them can"
        )
    dtypes = [_dump_dtype(backend.float_dtype), _dump_dtype(backend.int_dtype)]
    return ["Cpu", *dtypes] if type(backend) is Cpu else ["Cuda", backend.device.index, *dtypes]


def _load_backend(dumped: list[Any]) -> Backend:
    name, *rest = dumped
    if name == "Autodiff":
        return Autodiff(_load_backend(rest[0]))
    *index, float_dtype, int_dtype = rest
    return {"Cpu": Cpu, "Cuda": Cuda}[name](*index, getattr(torch, float_dtype), getattr(torch, int_dtype))


def _dump_dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
