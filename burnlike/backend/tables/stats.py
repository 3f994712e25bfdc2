"""Functions of Float tensors: statistics, cross products, sampling by weights."""

from typing import Protocol

import torch
from torch import Tensor


class StatsOps(Protocol):
    """Statistics along a dimension, which stays with size 1, cross products and sampling by weights."""

    @staticmethod
    def var(tensor: Tensor, dim: int, correction: int, /) -> Tensor:
        """The sum of squared distances from the mean divided by n - correction; NaN where that is 0 or less."""
        ...

    @staticmethod
    def var_mean(tensor: Tensor, dim: int, correction: int, /) -> tuple[Tensor, Tensor]:
        """`var`, and the mean."""
        ...

    @staticmethod
    def median(tensor: Tensor, dim: int, /) -> Tensor:
        """The lower median of at least one element; NaN counts as the greatest."""
        ...

    @staticmethod
    def median_with_indices(tensor: Tensor, dim: int, dtype: torch.dtype, /) -> tuple[Tensor, Tensor]:
        """`median`, and where along `dim` it is, in `dtype`."""
        ...

    @staticmethod
    def cov(tensor: Tensor, dim: int, correction: int, /) -> Tensor:
        """X^T X / (n - correction), batched; X centred along `dim`, of size n, and with `dim` and 0 swapped."""
        ...

    @staticmethod
    def cross(lhs: Tensor, rhs: Tensor, dim: int, /) -> Tensor:
        """Cross products along `dim`, of size 3; other sizes are equal or 1."""
        ...

    @staticmethod
    def categorical(weights: Tensor, num_samples: int, dtype: torch.dtype, /) -> Tensor:
        """`[.., n] -> [.., num_samples]`: indices in `dtype`, drawn with replacement by weights of 0 or more."""
        ...
