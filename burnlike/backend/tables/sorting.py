"""Functions of numbers (Float and Int): sorting."""

# pyright: reportReturnType=false

from typing import Protocol

import torch
from torch import Tensor


class SortOps(Protocol):
    """Sorting along a dimension; NaN is the greatest. Equal elements come in any order unless said otherwise."""

    def sort(self, tensor: Tensor, dim: int, descending: bool, /) -> Tensor:
        """The elements in order."""

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
