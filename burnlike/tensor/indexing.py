"""Slices, selections, gather and scatter."""

from .base import B, D, K, TensorBase


class IndexingMethods(TensorBase[B, D, K]):
    """Slices, selections, gather and scatter."""

    __slots__ = ()
