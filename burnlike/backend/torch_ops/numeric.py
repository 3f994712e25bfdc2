"""Arithmetic and order, in torch."""

import torch

from .basic import TorchBasicOps


class TorchNumericOps(TorchBasicOps):
    """Implements `NumericOps` for Float; `TorchIntOps` replaces what torch promotes."""

    add = staticmethod(torch.add)
