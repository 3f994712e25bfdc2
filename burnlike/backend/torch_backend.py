"""The backends of torch, `Cpu` and `Cuda`: its tables, and a value made of a device and two element types."""

import copy
import dataclasses
import numbers
from typing import Any, Self

import torch

from ..errors import BackendError, DeviceError
from .protocol import Backend
from .tables import (
    ActivationOps,
    BoolOps,
    FloatOps,
    IntOps,
    ModuleOps,
    TorchActivationOps,
    TorchBoolOps,
    TorchFloatOps,
    TorchIntOps,
    TorchModuleOps,
)


def find_device(device: torch.device | str | None) -> torch.device:
    """The device that is meant, None for torch's default; DeviceError if there is none, or burnlike can't run on it."""
    if device is None:
        return torch.get_default_device()
    meant = named_device(device)
    if meant.type not in ("cpu", "cuda", "meta"):
        raise DeviceError(f"burnlike runs on cpu and cuda, not on '{device}'; this machine has {_available()}")
    return meant


def named_device(device: Any) -> torch.device:
    """The device of a name or a backend, of any kind.

    It is a DeviceError if there is no such name, or it is CUDA and not there, or a backend creates floats of another
    type than torch, which would be passed over.
    """
    if isinstance(its := getattr(device, "device", None), torch.device):
        if (dtype := getattr(device, "float_dtype", None)) not in (None, torch.get_default_dtype()):
            raise DeviceError(
                f"expected a device, got {device!r}, whose {dtype} would be passed over; call .to(...) then"
            )
        device = its
    try:
        meant = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise DeviceError(f"expected a device such as cpu, cuda or cuda:0, got '{device}'") from error
    if meant.type == "cuda" and (meant.index or 0) >= _cuda_count():
        raise DeviceError(f"there is no device '{device}'; this machine has {_available()}")
    return meant


def check_cuda(backend: Any) -> None:
    """Raise DeviceError if this machine does not have the CUDA device of a backend."""
    if backend.device.type == "cuda" and (backend.device.index or 0) >= (count := torch.cuda.device_count()):
        raise DeviceError(f"{backend!r}: no such device, torch sees {count} CUDA devices; use burnlike.Cpu()")


def _cuda_count() -> int:
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def _available() -> str:
    if count := _cuda_count():
        return ", ".join(["cpu", *(f"cuda:{index}" for index in range(count))])
    if torch.version.cuda is None:
        return f"only cpu, since torch {torch.__version__} is built without CUDA"
    return "only cpu: torch sees no CUDA device"


_TABLES: dict[str, Any] = {
    "float_ops": TorchFloatOps(),
    "int_ops": TorchIntOps(),
    "bool_ops": TorchBoolOps(),
    "module_ops": TorchModuleOps(),
    "activation_ops": TorchActivationOps(),
}


def is_torchs(backend: Any) -> bool:
    """True if all functions of a backend, or of the one that it decorates with tracking, are torch's own."""
    inner = getattr(backend, "inner_backend", backend)
    return all(type(getattr(inner, name)) is type(table) for name, table in _TABLES.items())


def check_members(backend: Any) -> None:
    """Raise BackendError if the device or an element type of a backend is none; what lacks them is told elsewhere."""
    name = type(backend).__name__
    if not all(hasattr(backend, it) for it in ("device", "float_dtype", "int_dtype")):
        return
    device, floats, ints = backend.device, backend.float_dtype, backend.int_dtype
    if not isinstance(device, torch.device):
        raise BackendError(f"{name}.device: expected a torch.device such as torch.device('cpu'), got {device!r}")
    if not (isinstance(floats, torch.dtype) and floats.is_floating_point):
        raise BackendError(f"{name}: float: expected a floating point dtype such as torch.bfloat16, got {floats}")
    if not isinstance(ints, torch.dtype) or ints.is_floating_point or ints.is_complex or ints is torch.bool:
        raise BackendError(f"{name}: int: expected an integer dtype such as torch.int32, got {ints}")


@dataclasses.dataclass(frozen=True)
class TorchBackend:
    """A `Backend`: a torch device with the element types of the tensors that are created on it.

    Attributes:
        device: where the tensors are.
        float_dtype: the element type of new Float tensors.
        int_dtype: the element type of new Int tensors, indices among them.
    """

    device: torch.device
    float_dtype: torch.dtype
    int_dtype: torch.dtype

    def __post_init__(self) -> None:
        check_members(self)

    @property
    def name(self) -> str:
        return f"torch<{self.device.type}>"

    @property
    def ad_enabled(self) -> bool:
        return False

    @property
    def float_ops(self) -> FloatOps:
        return _TABLES["float_ops"]

    @property
    def int_ops(self) -> IntOps:
        return _TABLES["int_ops"]

    @property
    def bool_ops(self) -> BoolOps:
        return _TABLES["bool_ops"]

    @property
    def module_ops(self) -> ModuleOps:
        return _TABLES["module_ops"]

    @property
    def activation_ops(self) -> ActivationOps:
        return _TABLES["activation_ops"]

    def seed(self, seed: int) -> None:
        """Seed torch's generators, those of every device."""
        torch.manual_seed(seed)

    def full_precision(self) -> Self:
        """The same backend with float32 as its float type; float64 stays."""
        if self.float_dtype in (torch.float32, torch.float64):
            return self
        changed = copy.copy(self)
        object.__setattr__(changed, "float_dtype", torch.float32)
        return changed


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class Cpu(TorchBackend):
    """torch on the CPU. Never tracks; `Autodiff(Cpu())` does.

    Example:
        >>> from burnlike.backend import Cpu
        >>> Cpu().float_dtype
        torch.float32
    """

    def __init__(self, float: torch.dtype = torch.float32, int: torch.dtype = torch.int64) -> None:
        """Choose the element types.

        Args:
            float: of new Float tensors.
            int: of new Int tensors, indices among them.
        """
        super().__init__(torch.device("cpu"), float, int)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(float={self.float_dtype}, int={self.int_dtype})"

    def sync(self) -> None:
        """Nothing to wait for: work on the CPU is done when a function returns."""


def backend_for(device: torch.device) -> Backend:
    """The backend with the usual element types for a torch device.

    Raises:
        BackendError: there is none for devices of this type.
    """
    if device.type == "cpu":
        return Cpu()
    if device.type == "cuda":
        return Cuda(device.index or 0)
    raise BackendError(f"no backend for device '{device}'; Cpu and Cuda exist, others implement burnlike.Backend")


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class Cuda(TorchBackend):
    """torch on one CUDA device. Work is queued and runs asynchronously; `sync()` waits for it."""

    def __init__(self, index: int = 0, float: torch.dtype = torch.float32, int: torch.dtype = torch.int64) -> None:
        """Choose the device and the element types.

        Args:
            index: which device, 0 for the first.
            float: of new Float tensors.
            int: of new Int tensors, indices among them.

        Raises:
            DeviceError: `index` is no number of a device.
        """
        if not isinstance(index, numbers.Integral) or index < 0:
            raise DeviceError(f"Cuda: expected the number of a device, 0 or more, got {index!r}")
        super().__init__(torch.device("cuda", index), float, int)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.device.index}, float={self.float_dtype}, int={self.int_dtype})"

    def sync(self) -> None:
        """Wait until everything queued on the device has run.

        Raises:
            DeviceError: this machine does not have the device.
            RuntimeError: torch's, if a queued kernel failed.
        """
        try:
            torch.cuda.synchronize(self.device)
        except (RuntimeError, AssertionError):  # the second where torch is built without CUDA
            check_cuda(self)
            raise
