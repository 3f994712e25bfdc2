"""Creation: tensors made from shapes, ranges, distributions and data."""

from .base import B, D, K, TensorBase


class CreationMethods(TensorBase[B, D, K]):
    """Creation: tensors made from shapes, ranges, distributions and data."""

    __slots__ = ()
