"""Tensors of a shape, an element type and a device, without values: torch's FakeTensor.

Operations of a fake tensor and a real one compute the shape of the result alone. torch has them for `torch.compile`, in
no public module. Without them, models can't be cut into stages of a pipeline.
"""

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

__all__ = ["fake_of", "is_fake", "new_mode"]


def new_mode() -> FakeTensorMode:
    """A mode whose fake tensors may be computed with together, and with real ones."""
    return FakeTensorMode(allow_non_fake_inputs=True)


@torch.no_grad()
def fake_of(tensor: Tensor, mode: FakeTensorMode) -> Tensor:
    """A fake tensor with the shape, the type and the device of `tensor`."""
    with mode:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)


def is_fake(value: object) -> bool:
    return isinstance(value, FakeTensor)
