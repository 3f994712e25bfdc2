"""The tables of the three kinds, in torch."""

import torch
from torch import Tensor

from .basic import TorchBasicOps
from .ordered import TorchOrderedOps
from .reductions import TorchIntReductionOps
from .stats import TorchStatsOps


class TorchFloatOps(TorchOrderedOps, TorchStatsOps):
    """Implements `FloatOps`."""

    detach = staticmethod(Tensor.detach)
    exp = staticmethod(torch.exp)


class TorchIntOps(TorchIntReductionOps, TorchOrderedOps):
    """Implements `IntOps`: results keep the operands' dtype, where torch would promote to int64 or float."""


class TorchBoolOps(TorchBasicOps):
    """Implements `BoolOps`."""
