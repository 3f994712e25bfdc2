"""Adding adapters to the weights that they belong to."""

from typing import TypeVar

from torch import nn

from ...module import Lora, Param, materialize, params

M = TypeVar("M", bound=nn.Module)


def adapted_params(module: nn.Module) -> list[tuple[Param, Lora]]:
    """The parameters of a module that have low-rank adapters, each with its adapter."""
    found = ((param, param.reparameterization()) for param in params(module, "weight"))
    return [(param, adapter) for param, adapter in found if isinstance(adapter, Lora)]


def merge_adapters(module: M) -> M:
    """Add the adapters of a module to its weights, in place; returns the module.

    Sums are made in the element type of the adapters. The weights keep theirs, their objects, ids and trainability, and
    a quantized one becomes a plain one. A module without adapters stays as it is.

    Raises:
        ModuleTreeError: the module is sharded, or wrapped by DDP. It is as it was.
    """
    dtypes = [(param.tensor, param.tensor.dtype) for param, _ in adapted_params(module)]
    if dtypes:
        materialize(module)
    for tensor, dtype in dtypes:
        tensor.data = tensor.data.to(dtype)
    return module
