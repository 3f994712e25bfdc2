"""Extremes and sorting."""

from .base import B, D, K, TensorBase


class OrderedMethods(TensorBase[B, D, K]):
    """Extremes and sorting."""

    __slots__ = ()
