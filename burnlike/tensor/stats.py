"""Variance, median, covariance, sampling."""

from .base import B, D, K, TensorBase


class StatsMethods(TensorBase[B, D, K]):
    """Variance, median, covariance, sampling."""

    __slots__ = ()
