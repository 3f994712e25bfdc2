"""Comparisons, and reductions to Bool."""

from .base import B, D, K, TensorBase


class ComparisonMethods(TensorBase[B, D, K]):
    """Comparisons, and reductions to Bool."""

    __slots__ = ()
