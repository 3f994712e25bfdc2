"""Other kinds and element types."""

from .base import B, D, K, TensorBase


class ConversionMethods(TensorBase[B, D, K]):
    """Other kinds and element types."""

    __slots__ = ()
