"""Reading elements back to the host."""

from .base import B, D, K, TensorBase


class ReadingMethods(TensorBase[B, D, K]):
    """Reading elements back to the host."""

    __slots__ = ()
