"""Specs as JSON: what `torch.export.save` writes of a typed tensor among the inputs and outputs of a program."""

from typing import Any

from ...backend import Autodiff, Backend, Cpu, Cuda
from ...errors import TensorTypeError
from ..core.dtypes import as_dtype, dtype_name
from ..core.spec import Spec, family_of


def dump_spec(spec: Spec) -> list[Any]:
    """`[backend, element type, rank]`, which `json.dumps` takes.

    Raises:
        TensorTypeError: the backend is not one of burnlike's.
    """
    return [_dump_backend(spec.backend), dtype_name(spec.dtype), spec.rank]


def load_spec(dumped: Any) -> Spec:
    """The Spec that `dump_spec` wrote."""
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
