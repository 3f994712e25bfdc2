"""Checks the tensors that a parameter gets, before the module has them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..._torch_compat.fsdp import reshard
from ..._torch_compat.tensors import shares_memory
from ...backend.torch_ops.creation import TorchCreationOps
from ...errors import AutodiffError, DTypeError, ModuleTreeError
from ...tensor.core.base import TensorBase
from ...tensor.host.data import TensorData
from ..identity.field_metadata import Mapper
from ..torch_objects.device import find_device
from ..torch_objects.lazy_parameter import Init, LazyCell, LazyParameter
from ..torch_objects.wrappers import is_distributed

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


def parameter_or_state(given: AnyTensor, trainable: bool | None) -> Tensor:
    tensor = torch_tensor(given)
    if not tensor.is_leaf:
        raise AutodiffError("a parameter can't hold a tensor that was computed from others: give tensor.detach()")
    if not differentiable(tensor):
        if trainable:
            raise DTypeError(f"a parameter of {tensor.dtype} can't be trainable: use trainable=False, or floats")
        return tensor
    if not isinstance(tensor, nn.Parameter):
        return nn.Parameter(tensor.detach(), requires_grad=trainable is not False)
    return tensor if trainable is None else tensor.requires_grad_(trainable)


def untracked(tensor: Tensor) -> Tensor:
    """The same values without their graph, for a state, so that no step is in the graph of a later one."""
    return tensor if tensor.is_leaf else tensor.detach()


def lazy_parameter(
    init: Init, shape: Sequence[int], device: torch.device | str | None, dtype: torch.dtype | None, requires_grad: bool
) -> LazyParameter:
    if not callable(init):
        raise TypeError(f"expected a function of the device that makes the values, got {type(init).__name__}")
    dtype = torch.get_default_dtype() if dtype is None else dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        raise DTypeError(f"a lazy parameter holds floating-point numbers, got {dtype}; use Param.from_data")
    return LazyParameter(LazyCell(init), shape, find_device(device), dtype, requires_grad)


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


def check_division(path: str, present: Tensor, replacing: Tensor) -> None:
    if is_distributed(present) and not is_distributed(replacing):
        raise ModuleTreeError(
            f"'{path}' is divided among ranks: expected a DTensor in its place, got a {type(replacing).__name__}; copy"
            " values into param.tensor, or use map_ or a record"
        )
