"""Tensors of a shape, an element type and a device, without values: torch's FakeTensor.

Operations of a fake tensor and a real one compute the shape of the result alone. torch has them for `torch.compile`, in
no public module. Without them, models can't be cut into stages of a pipeline.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.utils._python_dispatch import _disable_current_modes

NEEDS_VALUES = (DataDependentOutputException, DynamicOutputShapeException)
"""What an operation raises that would need the values of fake tensors. Without the names, nothing is forecast."""


READS_NUMBER: Any = torch.ops.aten._local_scalar_dense.default
"""The operator by which Python reads the number of a tensor, as `item()` does."""


with_values = _disable_current_modes
"""A `with` block in which new tensors have values, whatever modes the code around it has put on."""


def active_mode() -> FakeTensorMode | None:
    """The mode in whose `with` block this is."""
    return detect_fake_mode()


def new_mode() -> FakeTensorMode:
    """A mode whose fake tensors may be computed with together, and with real ones; in the block of one that one."""
    return active_mode() or FakeTensorMode(allow_non_fake_inputs=True)


@torch.no_grad()
def fake_of(tensor: Tensor, mode: FakeTensorMode, device: torch.device | None = None) -> Tensor:
    """A fake tensor with the shape and the type of `tensor`, on its device or another one."""
    with mode:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device or tensor.device)


def is_fake(value: object) -> bool:
    return isinstance(value, FakeTensor)


def is_plain(kind: type) -> bool:
    """True if a class of tensors is no wrapper around others, as DTensor is."""
    return kind in (Tensor, torch.nn.Parameter, FakeTensor)


def forget(mode: FakeTensorMode) -> None:
    """Drop the weak references that a mode keeps to its tensors, with which `module.to(dtype)` refuses to replace them.

    Without it, a module that converts its parameters while it is built without values is built with them.
    """
    mode.fake_tensor_converter.meta_converter.tensor_memo.clear()


@contextmanager
def unlogged() -> Iterator[None]:
    """Leave out the log that torch writes of an operation that fails, beside the error that it raises.

    Without the logger of this name, the log is written.
    """
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def memory_of(storage: Any) -> int:
    """The address of what a storage of torch stands for, as that of fake tensors has no memory."""
    return storage._cdata


def adopt(tensor: Tensor, mode: FakeTensorMode) -> None:
    """Let a mode know a fake tensor as its own: one that was deep-copied has a copy of the mode.

    Without it, what is computed with a copied module is another tensor's.
    """
    if getattr(tensor, "fake_mode", mode) is not mode:
        tensor.fake_mode = mode  # pyright: ignore[reportAttributeAccessIssue]
