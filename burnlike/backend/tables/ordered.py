"""Extremes, sorting, comparison by order."""

from typing import Protocol

from .comparison import InequalityOps
from .extremes import ExtremeOps
from .indexing import NumericIndexOps
from .numeric import NumericOps
from .reductions import ReductionOps
from .sorting import SortOps


class OrderedOps(NumericOps, ReductionOps, ExtremeOps, SortOps, InequalityOps, NumericIndexOps, Protocol):
    """Comparisons, extremes and sorting."""
