"""Arithmetic and order, in torch."""

import torch
from torch import Tensor

from .basic import TorchBasicOps


class TorchNumericOps(TorchBasicOps):
    """Implements `NumericOps` for Float; `TorchIntOps` replaces what torch promotes."""

    add = staticmethod(torch.add)

    @staticmethod
    def sum(tensor: Tensor, /) -> Tensor:
        return torch.sum(tensor).reshape(1)
