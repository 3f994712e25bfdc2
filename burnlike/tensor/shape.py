"""Other shapes of the same elements."""

from .base import B, D, K, TensorBase


class ShapeMethods(TensorBase[B, D, K]):
    """Other shapes of the same elements."""

    __slots__ = ()
