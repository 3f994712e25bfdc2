"""Masks, one-hot codes, and what Bool tensors offer."""

from .base import B, D, K, TensorBase


class MaskMethods(TensorBase[B, D, K]):
    """Masks, one-hot codes, and what Bool tensors offer."""

    __slots__ = ()
