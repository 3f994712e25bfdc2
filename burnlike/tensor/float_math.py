"""Element-wise functions of Float tensors."""

from .base import B, D, K, TensorBase


class FloatMethods(TensorBase[B, D, K]):
    """Element-wise functions of Float tensors."""

    __slots__ = ()
