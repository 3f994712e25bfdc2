"""Functions of Float tensors: statistics, cross products, sampling by weights."""

from typing import Protocol

import torch
from torch import Tensor


class StatsOps(Protocol):
    """Statistics along a dimension, which stays with size 1, cross products and sampling by weights."""

    def var(self, tensor: Tensor, dim: int, unbiased: bool, /) -> Tensor:
        """Sums of squared distances from the mean divided by n, if unbiased by n - 1; NaN where that is 0 or less."""
        ...

    def var_mean(self, tensor: Tensor, dim: int, unbiased: bool, /) -> tuple[Tensor, Tensor]:
        """`var`, and the mean."""
        ...

    def median(self, tensor: Tensor, dim: int, /) -> Tensor:
        """The lower median of at least one element; NaN counts as the greatest."""
        ...

    def median_with_indices(self, tensor: Tensor, dim: int, dtype: torch.dtype, /) -> tuple[Tensor, Tensor]:
        """`median`, and where along `dim` it is, in `dtype`."""
        ...

    def cov(self, tensor: Tensor, dim: int, correction: int, /) -> Tensor:
        """X^T X / (n - correction), batched; X centred along `dim`, of size n, and with `dim` and 0 swapped."""
        ...

    def cross(self, lhs: Tensor, rhs: Tensor, dim: int, /) -> Tensor:
        """Cross products along `dim`, of size 3; other sizes are equal or 1."""
        ...

    def categorical(self, weights: Tensor, num_samples: int, dtype: torch.dtype, /) -> Tensor:
        """`[.., n] -> [.., num_samples]`: indices in `dtype`, drawn with replacement; errors of weights are torch's."""
        ...
