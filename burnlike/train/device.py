"""Which device a run uses."""

import torch

from ..errors import DeviceError


def choose_device(name: str) -> torch.device:
    """The device that a config names.

    Args:
        name: `auto` (the first CUDA device, else the CPU), `cpu`, `cuda` or `cuda:N`.

    Raises:
        DeviceError: there is no such device; the message says which there are.
    """
    if name == "auto":
        return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    device = torch.device(name)
    if device.type != "cuda":
        return device
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if (device.index or 0) >= count:
        raise DeviceError(
            f"there is no device '{name}'; this machine has {_available(count)} (device: auto takes the best)"
        )
    return torch.device("cuda", device.index or 0)


def describe_device(device: torch.device) -> str:
    """The device in words: its name and, for the CPU, the threads in use."""
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    threads = torch.get_num_threads()
    return f"{device} ({threads} thread{'s' * (threads != 1)})"


def _available(count: int) -> str:
    if count:
        return ", ".join(["cpu", *(f"cuda:{index}" for index in range(count))])
    if torch.version.cuda is None:
        return f"only cpu, since torch {torch.__version__} is built without CUDA"
    return "only cpu: torch sees no CUDA device"
