"""Extremes and sorting, in torch."""

from .numeric import TorchNumericOps
from .reductions import TorchReductionOps


class TorchOrderedOps(TorchNumericOps, TorchReductionOps):
    """Implements `OrderedOps`."""
