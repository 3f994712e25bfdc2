"""Functions of numbers (Float and Int): the greatest and the smallest."""

from typing import Protocol

import torch
from torch import Tensor


class ExtremeOps(Protocol):
    """Extremes; NaN wins over all numbers. What is reduced has at least one element, and stays with size 1.

    Of equal elements the first is meant, and the gradient goes to it alone.
    """

    def max(self, tensor: Tensor, /) -> Tensor:
        """The greatest of all elements, `[1]`."""
        ...

    def min(self, tensor: Tensor, /) -> Tensor:
        """The smallest of all elements, `[1]`."""
        ...

    def max_dim(self, tensor: Tensor, dim: int | list[int], /) -> Tensor:
        """The greatest along one or several different dimensions."""
        ...

    def min_dim(self, tensor: Tensor, dim: int | list[int], /) -> Tensor:
        """The smallest along one or several different dimensions."""
        ...

    def max_dim_with_indices(self, tensor: Tensor, dim: int, dtype: torch.dtype, /) -> tuple[Tensor, Tensor]:
        """The greatest along a dimension, and where it is, in `dtype`."""
        ...

    def min_dim_with_indices(self, tensor: Tensor, dim: int, dtype: torch.dtype, /) -> tuple[Tensor, Tensor]:
        """The smallest along a dimension, and where it is, in `dtype`."""
        ...

    def max_abs(self, tensor: Tensor, /) -> Tensor:
        """The greatest magnitude of all elements, `[1]`."""
        ...

    def max_abs_dim(self, tensor: Tensor, dim: int | list[int], /) -> Tensor:
        """The greatest magnitude along one or several different dimensions."""
        ...

    def argmax(self, tensor: Tensor, dim: int, dtype: torch.dtype, /) -> Tensor:
        """Where the greatest along a dimension is, in `dtype`."""
        ...

    def argmin(self, tensor: Tensor, dim: int, dtype: torch.dtype, /) -> Tensor:
        """Where the smallest along a dimension is, in `dtype`."""
        ...
