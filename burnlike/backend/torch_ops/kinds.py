"""The tables of the three kinds, in torch."""

import torch
from torch import Tensor

from .basic import TorchBasicOps
from .ordered import TorchOrderedOps


class TorchFloatOps(TorchOrderedOps):
    """Implements `FloatOps`."""

    detach = staticmethod(Tensor.detach)
    exp = staticmethod(torch.exp)


class TorchIntOps(TorchOrderedOps):
    """Implements `IntOps`: results keep the operands' dtype, where torch would promote to int64 or float."""

    @staticmethod
    def sum(tensor: Tensor, /) -> Tensor:
        return torch.sum(tensor, dtype=tensor.dtype).reshape(1)


class TorchBoolOps(TorchBasicOps):
    """Implements `BoolOps`."""
