"""Bitwise functions of Int tensors."""

from .base import B, D, K, TensorBase


class IntMethods(TensorBase[B, D, K]):
    """Bitwise functions of Int tensors."""

    __slots__ = ()
