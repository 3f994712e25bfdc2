"""`ConversionOps`, in torch."""

import torch
from torch import Tensor


class TorchConversionOps:
    """Implements `ConversionOps`."""

    truth = staticmethod(bool)

    @staticmethod
    def cast(tensor: Tensor, dtype: torch.dtype, /) -> Tensor:
        return tensor.to(dtype)
