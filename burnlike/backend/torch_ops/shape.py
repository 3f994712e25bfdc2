"""Creation, reading, shape and joining, in torch."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class TorchShapeOps:
    """Implements `ShapeOps`."""

    @staticmethod
    def from_data(data: Any, shape: Sequence[int], dtype: torch.dtype, device: torch.device, /) -> Tensor:
        return torch.as_tensor(data).to(device=device, dtype=dtype, copy=True).reshape(list(shape))
