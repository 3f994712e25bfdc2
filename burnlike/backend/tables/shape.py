"""Functions of every kind: creation, reading, shape, joining."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor


class ShapeOps(Protocol):
    """Creation, reading, shape and joining, of Float, Int and Bool tensors."""

    @staticmethod
    def from_data(data: Any, shape: Sequence[int], dtype: torch.dtype, device: torch.device, /) -> Tensor:
        """A new tensor with the values of nested lists, an array or a torch tensor, converted to `dtype`."""
        ...
