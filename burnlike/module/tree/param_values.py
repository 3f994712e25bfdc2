"""Checks the tensors that a parameter gets, before the module has them."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..._torch_compat.fsdp import reshard
from ..._torch_compat.tensors import shares_memory
from ...backend.devices import find_device
from ...backend.torch_ops.creation import TorchCreationOps
from ...tensor.core.base import TensorBase
from ...tensor.host.data import TensorData
from ..identity.field_metadata import Mapper

AnyTensor = Tensor | TensorBase
"""A tensor of torch or a typed one."""
IS_GRADIENT = "_burnlike_is_gradient"
"""An attribute of the parameters of a module that is the gradient of another one."""


class Mappers(NamedTuple):
    """Functions between the form of records and that of the module; None where the forms are the same."""

    load: Mapper | None
    save: Mapper | None


def differentiable(tensor: Tensor) -> bool:
    """Whether it can be trained."""
    return tensor.is_floating_point() or tensor.is_complex()


def torch_tensor(tensor: AnyTensor) -> Tensor:
    found = tensor.inner if isinstance(tensor, TensorBase) else tensor
    if not isinstance(found, Tensor):
        raise TypeError(f"expected a torch.Tensor, got {type(tensor).__name__}; for numbers use Param.from_data")
    return found


def values_of(data: Any, device: torch.device | str | None) -> Tensor:
    if isinstance(data, TensorData):
        return TorchCreationOps.from_data(data.bytes, data.shape, data.dtype, find_device(device))
    if isinstance(data, AnyTensor):
        values = torch_tensor(data).detach().clone()
        return values if device is None else values.to(find_device(device))
    target = find_device(device)
    try:
        return torch.tensor(data, device=target)
    except (ValueError, RuntimeError, TypeError) as error:
        raise TypeError(f"expected numbers, in lists, an array, TensorData or a tensor: {error}") from error


def untracked(tensor: Tensor) -> Tensor:
    """The same values without their graph, for a state, so that no step is in the graph of a later one."""
    return tensor if tensor.is_leaf else tensor.detach()


def mapped(before: Tensor, mapper: Mapper, what: object) -> Tensor:
    """The values of `what` after `mapper`, always in memory of their own; TypeError unless they are of its kind."""
    with torch.no_grad():
        values = mapper(before)
    if not isinstance(values, Tensor):
        raise TypeError(f"the mapper of {what} gave {type(values).__name__}, expected a torch.Tensor")
    if differentiable(before) and not differentiable(values):
        raise TypeError(f"the mapper of {what} gave {values.dtype}, expected floating-point numbers")
    shared = shares_memory(values, before)
    return values.detach().clone() if shared else values.detach()


def track(tensor: Tensor, requires_grad: bool) -> None:
    if tensor.requires_grad != requires_grad:
        reshard([tensor])
        tensor.requires_grad_(requires_grad)
