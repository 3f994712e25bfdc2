"""Functions of numbers (Float and Int): sums, means, products and running forms."""

from typing import Protocol

from torch import Tensor


class ReductionOps(Protocol):
    """Sums, means and products, in the tensor's dtype. With `keepdim` a reduced dimension stays, of size 1."""

    def sum(self, tensor: Tensor, /) -> Tensor:
        """The sum of all elements, `[1]`."""
        ...

    def sum_dim(self, tensor: Tensor, dim: int | list[int], keepdim: bool, /) -> Tensor:
        """Sums over one or several different dimensions, at least one."""
        ...

    def mean(self, tensor: Tensor, /) -> Tensor:
        """The mean of all elements, `[1]`; of integers, of which there is at least one, its whole part."""
        ...

    def mean_dim(self, tensor: Tensor, dim: int | list[int], keepdim: bool, /) -> Tensor:
        """Means over one or several different dimensions; of integers the whole part, one after the other."""
        ...

    def prod(self, tensor: Tensor, /) -> Tensor:
        """The product of all elements, `[1]`."""
        ...

    def prod_dim(self, tensor: Tensor, dim: int, keepdim: bool, /) -> Tensor:
        """Products along a dimension."""
        ...

    def cumsum(self, tensor: Tensor, dim: int, /) -> Tensor:
        """Running sums along a dimension."""
        ...

    def cumprod(self, tensor: Tensor, dim: int, /) -> Tensor:
        """Running products along a dimension."""
        ...

    def cummin(self, tensor: Tensor, dim: int, /) -> Tensor:
        """The smallest so far along a dimension; NaN from the first NaN on."""
        ...

    def cummax(self, tensor: Tensor, dim: int, /) -> Tensor:
        """The largest so far along a dimension; NaN from the first NaN on."""
        ...
