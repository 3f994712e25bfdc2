"""Counting, moving and copying modules."""

import copy
from typing import TypeVar

import torch
from torch import nn

from .device import find_device
from .lazy import initialize_param
from .registry import fresh_ids, params
from .tree import unwrap

M = TypeVar("M", bound=nn.Module)


def num_params(module: nn.Module) -> int:
    """Count the values of all floating-point parameters and running statistics, tied tensors once.

    Lazy parameters are counted without being initialized.
    """
    return sum(param.tensor.numel() for param in params(module) if param.tensor.is_floating_point())


def devices(module: nn.Module) -> list[torch.device]:
    """The devices that the parameters are on, each once, in the order they are met; initializes nothing."""
    return list(dict.fromkeys(param.tensor.device for param in params(module)))


def to_device(module: M, device: torch.device | str) -> M:
    """Move `module` to `device`, in place, and return it. Parameters stay leaves, and trainable.

    Raises:
        DeviceError: there is no such device.
    """
    return module.to(find_device(device))


def fork(module: M, device: torch.device | str) -> M:
    """A copy of `module` on `device`, with the same ids and leaves of its own, to be trained there.

    Raises:
        DeviceError: there is no such device.
    """
    target = find_device(device)
    return clone(module).to(target)


def clone(module: M, new_ids: bool = False) -> M:
    """A copy that shares no memory with `module`, by default with the same ids; lazy parameters share their start.

    Args:
        module: any `nn.Module`; of wrappers (DDP, torch.compile) the inner module is copied.
        new_ids: for a copy that is to live in one tree with the original.
    """
    copied = copy.deepcopy(unwrap(module))
    return fresh_ids(copied) if new_ids else copied  # pyright: ignore[reportReturnType]


def initialize(module: M) -> M:
    """Give all lazy parameters of `module` their values now; returns the module."""
    for param in params(module, "weight"):
        initialize_param(param.tensor)
    return module
