"""Tensors without memory of their own, whose class says what operations do with them."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def tensor_without_memory(
    tensor_class: type[Tensor], size: Sequence[int], strides: Sequence[int], dtype: torch.dtype, device: torch.device
) -> Any:
    """A tensor of a subclass with `__torch_dispatch__` that has a shape, a dtype and a device, and no memory.

    torch's guide to subclasses names the function. Without it, logits could not be returned before they are computed.
    """
    make: Any = Tensor._make_wrapper_subclass
    return make(tensor_class, tuple(size), strides=tuple(strides), dtype=dtype, device=device)


def as_plain() -> Any:
    """A `with` block in which functions of torch don't ask the classes of tensors, as their `__torch_function__` needs.

    torch's guide to subclasses names it. Without it, a class could not ask for the shape of its own tensor.
    """
    return torch._C.DisableTorchFunctionSubclass()


def without_overrides() -> Any:
    """As `as_plain`, and without torch's function modes: native code pays for them at each attribute of a tensor."""
    return torch._C.DisableTorchFunction()
