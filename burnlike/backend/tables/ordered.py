"""Extremes, sorting, comparison by order."""

from typing import Protocol

from .numeric import NumericOps
from .reductions import ReductionOps


class OrderedOps(NumericOps, ReductionOps, Protocol):
    """Comparisons, extremes and sorting."""
