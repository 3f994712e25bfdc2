"""The transforms of `torch.func` that run around the present code, and the tensors that are theirs."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

_functorch: Any = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]


def transforming() -> bool:
    """True while a transform of `torch.func` is running.

    Without it, parameters could not be told from the values that a transform computes, and derivatives would be cut.
    """
    return torch._C._are_functorch_transforms_active()


def readable(tensor: Tensor) -> bool:
    """True if the values of `tensor` can be read without waiting for a device, and without a trace in a graph."""
    return tensor.is_cpu and type(tensor) is Tensor and not torch.compiler.is_compiling() and not transforming()


def in_forward_mode() -> bool:
    """True if derivatives may be computed in forward mode, by `torch.autograd.forward_ad`.

    Without it, an op of a library would lose them without a word.
    """
    return forward_ad._current_level >= 0  # pyright: ignore[reportPrivateUsage]


def is_wrapped(tensor: Tensor) -> bool:
    """True if `tensor` exists only within a transform of `torch.func`; without it, such tensors would leave it."""
    return _functorch.is_functorch_wrapped_tensor(tensor)


def is_batched(tensor: Tensor) -> bool:
    """True if `tensor` differs from call to call of a running `vmap`.

    Without it, a state that can't be stored outside would be stored there, and fail at its next use.
    """
    return _functorch.is_batchedtensor(tensor)


def is_batched_by_autograd(tensor: Tensor) -> bool:
    """True if `tensor` stands for many gradients that `torch.autograd.grad` takes at once, by `is_grads_batched`.

    Without it, native ops and functions that write to tensors of theirs would be called with them and fail.
    """
    return _functorch.is_legacy_batchedtensor(tensor)


def is_differentiated(tensor: Tensor) -> bool:
    """True if a derivative of `torch.func` follows `tensor`; as `is_batched`."""
    return _functorch.is_gradtrackingtensor(tensor)
