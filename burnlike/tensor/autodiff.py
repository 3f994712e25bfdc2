"""Tracking and gradients."""

from .base import B, D, K, TensorBase


class AutodiffMethods(TensorBase[B, D, K]):
    """Tracking and gradients."""

    __slots__ = ()
