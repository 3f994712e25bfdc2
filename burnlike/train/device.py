"""Chooses the device of a run."""

import torch

from ..module.identity.device import find_device


def choose_device(name: str) -> torch.device:
    """The device that a config names.

    Args:
        name: `auto` (the first CUDA device, else the CPU), `cpu`, `cuda` or `cuda:N`.

    Raises:
        DeviceError: there is no such device; the message says which there are.
    """
    if name == "auto":
        return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    device = find_device(name)
    return torch.device("cuda", device.index or 0) if device.type == "cuda" else device


def describe_device(device: torch.device) -> str:
    """The device in words: its name and, for the CPU, the threads in use."""
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    threads = torch.get_num_threads()
    return f"{device} ({threads} thread{'s' * (threads != 1)})"
