"""Functions of numbers (Float and Int): reductions, extremes, sorting; statistics of Float."""

# pyright: reportReturnType=false

from typing import Protocol

import torch
from torch import Tensor


class ReductionOps(Protocol):
    """Sums, means and products, in the tensor's dtype. With `keepdim` a reduced dimension stays, of size 1."""

    def sum(self, tensor: Tensor, /) -> Tensor:
        """The sum of all elements, `[1]`."""

    def sum_dim(self, tensor: Tensor, dim: int | list[int], keepdim: bool, /) -> Tensor:
        """Sums over one or several different dimensions, at least one."""

    def mean(self, tensor: Tensor, /) -> Tensor:
        """The mean of all elements, `[1]`; of integers, of which there is at least one, its whole part."""

    def mean_dim(self, tensor: Tensor, dim: int | list[int], keepdim: bool, /) -> Tensor:
        """Means over one or several different dimensions; of integers the whole part, one after the other."""

    def prod(self, tensor: Tensor, /) -> Tensor: ...
    def prod_dim(self, tensor: Tensor, dim: int, keepdim: bool, /) -> Tensor: ...
    def cumsum(self, tensor: Tensor, dim: int, /) -> Tensor:
        """Running sums along a dimension."""

    def cumprod(self, tensor: Tensor, dim: int, /) -> Tensor:
        """Running products along a dimension."""

    def cummin(self, tensor: Tensor, dim: int, /) -> Tensor:
        """The smallest so far along a dimension; NaN from the first NaN on."""

    def cummax(self, tensor: Tensor, dim: int, /) -> Tensor:
        """The largest so far along a dimension; NaN from the first NaN on."""


class ExtremeOps(Protocol):
    """Extremes; NaN wins over all numbers. What is reduced has at least one element, and stays with size 1.

    Of equal elements the first is meant, and the gradient goes to it alone.
    """

    def max(self, tensor: Tensor, /) -> Tensor:
        """The greatest of all elements, `[1]`."""

    def min(self, tensor: Tensor, /) -> Tensor:
        """The smallest of all elements, `[1]`."""

    def max_dim(self, tensor: Tensor, dim: int | list[int], /) -> Tensor:
        """The greatest along one or several different dimensions."""

    def min_dim(self, tensor: Tensor, dim: int | list[int], /) -> Tensor:
        """The smallest along one or several different dimensions."""

    def max_dim_with_indices(self, tensor: Tensor, dim: int, dtype: torch.dtype, /) -> tuple[Tensor, Tensor]:
        """The greatest along a dimension, and where it is, in `dtype`."""

    def min_dim_with_indices(self, tensor: Tensor, dim: int, dtype: torch.dtype, /) -> tuple[Tensor, Tensor]:
        """The smallest along a dimension, and where it is, in `dtype`."""

    def max_abs(self, tensor: Tensor, /) -> Tensor:
        """The greatest magnitude of all elements, `[1]`."""

    def max_abs_dim(self, tensor: Tensor, dim: int | list[int], /) -> Tensor:
        """The greatest magnitude along one or several different dimensions."""

    def argmax(self, tensor: Tensor, dim: int, dtype: torch.dtype, /) -> Tensor:
        """Where the greatest along a dimension is, in `dtype`."""

    def argmin(self, tensor: Tensor, dim: int, dtype: torch.dtype, /) -> Tensor:
        """Where the smallest along a dimension is, in `dtype`."""


class StatsOps(Protocol):
    """Statistics along a dimension, which stays with size 1, cross products and sampling by weights."""

    def var(self, tensor: Tensor, dim: int, unbiased: bool, /) -> Tensor:
        """Sums of squared distances from the mean divided by n, if unbiased by n - 1; NaN where that is 0 or less."""

    def var_mean(self, tensor: Tensor, dim: int, unbiased: bool, /) -> tuple[Tensor, Tensor]:
        """`var`, and the mean."""

    def median(self, tensor: Tensor, dim: int, /) -> Tensor:
        """The lower median of at least one element; NaN counts as the greatest."""

    def median_with_indices(self, tensor: Tensor, dim: int, dtype: torch.dtype, /) -> tuple[Tensor, Tensor]:
        """`median`, and where along `dim` it is, in `dtype`."""

    def cov(self, tensor: Tensor, dim: int, correction: int, /) -> Tensor:
        """X^T X / (n - correction), batched; X centred along `dim`, of size n, and with `dim` and 0 swapped."""

    def cross(self, lhs: Tensor, rhs: Tensor, dim: int, /) -> Tensor:
        """Cross products along `dim`, of size 3; other sizes are equal or 1."""

    def categorical(self, weights: Tensor, num_samples: int, dtype: torch.dtype, /) -> Tensor:
        """`[.., n] -> [.., num_samples]`: indices in `dtype`, drawn with replacement; errors of weights are torch's."""


class SortOps(Protocol):
    """Sorting along a dimension; NaN is the greatest. Equal elements come in any order unless said otherwise."""

    def sort(self, tensor: Tensor, dim: int, descending: bool, /) -> Tensor: ...
    def sort_with_indices(
        self, tensor: Tensor, dim: int, descending: bool, dtype: torch.dtype, /
    ) -> tuple[Tensor, Tensor]:
        """The elements in order, and where each was, in `dtype`."""

    def argsort(self, tensor: Tensor, dim: int, descending: bool, dtype: torch.dtype, /) -> Tensor:
        """Where each of the elements in order was, in `dtype`."""

    def topk(self, tensor: Tensor, k: int, dim: int, /) -> Tensor:
        """The `k` greatest, descending; 0 <= k <= size of `dim`."""

    def topk_with_indices(self, tensor: Tensor, k: int, dim: int, dtype: torch.dtype, /) -> tuple[Tensor, Tensor]:
        """The `k` greatest, descending, and where each is, in `dtype`."""

    def argtopk(self, tensor: Tensor, k: int, dim: int, dtype: torch.dtype, /) -> Tensor:
        """Where the `k` greatest are, in `dtype`; of equal ones the first, and in their order."""
