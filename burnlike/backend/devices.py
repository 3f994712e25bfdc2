"""The devices of this machine."""

from typing import Any

import torch

from ..errors import DeviceError


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
