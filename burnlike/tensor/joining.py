"""Joining and splitting."""

from .base import B, D, K, TensorBase


class JoiningMethods(TensorBase[B, D, K]):
    """Joining and splitting."""

    __slots__ = ()
