"""The base of `Cpu` and `Cuda`: torch's tables, and a value made of a device and two element types."""

import copy
import dataclasses
from typing import Any, Self

import torch

from ..errors import BackendError
from .tables import ActivationOps, BoolOps, FloatOps, IntOps, ModuleOps
from .torch_ops import TorchActivationOps, TorchBoolOps, TorchFloatOps, TorchIntOps, TorchModuleOps

_FLOAT_OPS = TorchFloatOps()
_INT_OPS = TorchIntOps()
_BOOL_OPS = TorchBoolOps()
_MODULE_OPS = TorchModuleOps()
_ACTIVATION_OPS = TorchActivationOps()


_TABLES = {
    "float_ops": _FLOAT_OPS,
    "int_ops": _INT_OPS,
    "bool_ops": _BOOL_OPS,
    "module_ops": _MODULE_OPS,
    "activation_ops": _ACTIVATION_OPS,
}


def is_torchs(backend: Any) -> bool:
    """Whether all functions of a backend, or of the one that it decorates with tracking, are torch's own."""
    inner = getattr(backend, "inner_backend", backend)
    return all(type(getattr(inner, name)) is type(table) for name, table in _TABLES.items())


@dataclasses.dataclass(frozen=True)
class TorchBackend:
    """A torch device with the element types of the tensors that are created on it.

    Attributes:
        device: where the tensors are.
        float_dtype: the element type of new Float tensors.
        int_dtype: the element type of new Int tensors, indices among them.
    """

    device: torch.device
    float_dtype: torch.dtype
    int_dtype: torch.dtype

    def __post_init__(self) -> None:
        if not self.float_dtype.is_floating_point:
            raise BackendError(f"float: expected a floating point dtype such as torch.bfloat16, got {self.float_dtype}")
        if self.int_dtype.is_floating_point or self.int_dtype.is_complex or self.int_dtype is torch.bool:
            raise BackendError(f"int: expected an integer dtype such as torch.int32, got {self.int_dtype}")

    @property
    def name(self) -> str:
        """As in `torch<cpu>`."""
        return f"torch<{self.device.type}>"

    @property
    def ad_enabled(self) -> bool:
        """False: `Autodiff` of this backend tracks."""
        return False

    @property
    def float_ops(self) -> FloatOps:
        """The functions of Float tensors."""
        return _FLOAT_OPS

    @property
    def int_ops(self) -> IntOps:
        """The functions of Int tensors."""
        return _INT_OPS

    @property
    def bool_ops(self) -> BoolOps:
        """The functions of Bool tensors."""
        return _BOOL_OPS

    @property
    def module_ops(self) -> ModuleOps:
        """Convolutions, pools, attention, linear algebra, signals."""
        return _MODULE_OPS

    @property
    def activation_ops(self) -> ActivationOps:
        """Activation functions."""
        return _ACTIVATION_OPS

    def seed(self, seed: int) -> None:
        """Seed torch's generators, those of every device."""
        torch.manual_seed(seed)

    def full_precision(self) -> Self:
        """The same backend with float32 as its float type; float64 stays."""
        wide = self.float_dtype in (torch.float32, torch.float64)
        return self if wide else self._with_float(torch.float32)

    def _with_float(self, dtype: torch.dtype) -> Self:
        changed = copy.copy(self)
        object.__setattr__(changed, "float_dtype", dtype)
        return changed
