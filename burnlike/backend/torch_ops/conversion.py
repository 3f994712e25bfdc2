"""`ConversionOps`, in torch."""

from typing import Any

import torch
from torch import Tensor


class TorchConversionOps:
    """Implements `ConversionOps`."""

    truth: Any = staticmethod(bool)

    @staticmethod
    def cast(tensor: Tensor, dtype: torch.dtype, /) -> Tensor:
        return tensor.to(dtype)
