"""Complex parameters as torch steps them: as two real numbers each, with states that are complex again for others."""

from typing import Any

import torch
from torch import Tensor

from .state import map_tensors


def as_real(tensor: Tensor) -> Tensor:
    """`tensor`, of complex numbers its real and imaginary parts, `[..., 2]`, in the same memory."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def state_as_real(state: Any) -> Any:
    return map_tensors(state, as_real)


def state_as_complex(state: Any, parameter: Tensor) -> Any:
    """A state whose tensors of the shape of a complex parameter's parts are complex, in the same memory."""
    if not parameter.is_complex():
        return state
    shape = (*parameter.shape, 2)
    pairs = (torch.float32, torch.float64)
    return map_tensors(state, lambda it: torch.view_as_complex(it) if it.shape == shape and it.dtype in pairs else it)
