"""What a tensor is: shape, dtype, device, and moving it."""

from .base import B, D, K, TensorBase


class MetadataMethods(TensorBase[B, D, K]):
    """What a tensor is: shape, dtype, device, and moving it."""

    __slots__ = ()
