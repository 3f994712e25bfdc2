"""Functions of numbers (Float and Int): the greatest and the smallest."""

from typing import Protocol

import torch
from torch import Tensor


class ExtremeOps(Protocol):
    """Extremes; NaN wins over all numbers. What is reduced has at least one element, and stays with size 1.

    Of equal elements the first is meant, and the gradient goes to it alone.
    """

    @staticmethod
    def max(tensor: Tensor, /) -> Tensor:
        """The greatest of all elements, `[1]`."""
        ...

    @staticmethod
    def min(tensor: Tensor, /) -> Tensor:
        """The smallest of all elements, `[1]`."""
        ...

    @staticmethod
    def max_dim(tensor: Tensor, dim: int | list[int], /) -> Tensor:
        """The greatest along one or several different dimensions."""
        ...

    @staticmethod
    def min_dim(tensor: Tensor, dim: int | list[int], /) -> Tensor:
        """The smallest along one or several different dimensions."""
        ...

    @staticmethod
    def max_dim_with_indices(tensor: Tensor, dim: int, dtype: torch.dtype, /) -> tuple[Tensor, Tensor]:
        """The greatest along a dimension, and where it is, in `dtype`."""
        ...

    @staticmethod
    def min_dim_with_indices(tensor: Tensor, dim: int, dtype: torch.dtype, /) -> tuple[Tensor, Tensor]:
        """The smallest along a dimension, and where it is, in `dtype`."""
        ...

    @staticmethod
    def max_abs(tensor: Tensor, /) -> Tensor:
        """The greatest magnitude of all elements, `[1]`."""
        ...

    @staticmethod
    def max_abs_dim(tensor: Tensor, dim: int | list[int], /) -> Tensor:
        """The greatest magnitude along one or several different dimensions."""
        ...

    @staticmethod
    def argmax(tensor: Tensor, dim: int, dtype: torch.dtype, /) -> Tensor:
        """Where the greatest along a dimension is, in `dtype`."""
        ...

    @staticmethod
    def argmin(tensor: Tensor, dim: int, dtype: torch.dtype, /) -> Tensor:
        """Where the smallest along a dimension is, in `dtype`."""
        ...
