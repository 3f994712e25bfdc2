"""Extremes, sorting, comparison by order."""

from typing import Protocol

from .numeric import NumericOps


class OrderedOps(NumericOps, Protocol):
    """Comparisons, extremes and sorting."""
