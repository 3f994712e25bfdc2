"""Extremes and sorting, in torch."""

from .numeric import TorchNumericOps


class TorchOrderedOps(TorchNumericOps):
    """Implements `OrderedOps`."""
