# Written by `make docs` from reductions.py (tools/tensor_stubs.py): do not edit.
# pyright: reportIncompatibleMethodOverride=false
"""Sums, means, products and extremes, whole, along dimensions and running."""

from collections.abc import Sequence
from typing import Any, overload

from ..core.base import D2, D3, D4, B, D, K, Numeric, TensorBase
from ..core.kinds import D1, Int
from ..tensor import Tensor

class ReductionMethods(TensorBase[B, D, K]):
    """Sums, means, products and extremes, whole and running. NaN is an extreme; of equal ones the first is meant."""
    def sum(self: Numeric[B, D], dim: None = None, keepdim: None = None) -> Tensor[B, D1, K]:
        """The sum of all elements. `[..] -> [1]`.
        Torch: `torch.sum(x)`. Differs: shape `[1]`; Int keeps its dtype.
        """
    def prod(self: Numeric[B, D], dim: None = None, keepdim: None = None) -> Tensor[B, D1, K]:
        """The product of all elements. `[..] -> [1]`.
        Torch: `torch.prod(x)`. Differs: shape `[1]`; Int keeps its dtype.
        """
    def sum_dim(self: Numeric[B, D], dim: int) -> Tensor[B, D, K]:
        """Sums along `dim`. `[.., n] -> [.., 1]`.
        Torch: `torch.sum(x, dim, keepdim=True)`. Differs: Int keeps its dtype.
        """
    def prod_dim(self: Numeric[B, D], dim: int) -> Tensor[B, D, K]:
        """Products along `dim`. `[.., n] -> [.., 1]`.
        Torch: `torch.prod(x, dim, keepdim=True)`. Differs: Int keeps its dtype.
        """
    def cumsum(self: Numeric[B, D], dim: int) -> Tensor[B, D, K]:
        """Running sums along `dim`. `[..] -> [..]`.
        Torch: `torch.cumsum(x, dim)`. Differs: Int keeps its dtype.
        """
    def cumprod(self: Numeric[B, D], dim: int) -> Tensor[B, D, K]:
        """Running products along `dim`. `[..] -> [..]`.
        Torch: `torch.cumprod(x, dim)`. Differs: Int keeps its dtype.
        """
    def cummin(self: Numeric[B, D], dim: int) -> Tensor[B, D, K]:
        """The smallest so far along `dim`, from NaN on NaN. `[..] -> [..]`.
        Torch: `torch.cummin(x, dim).values`.
        """
    def cummax(self: Numeric[B, D], dim: int) -> Tensor[B, D, K]:
        """The greatest so far along `dim`, from NaN on NaN. `[..] -> [..]`.
        Torch: `torch.cummax(x, dim).values`.
        """
    def argmax(self: Numeric[B, D], dim: int, keepdim: None = None) -> Tensor[B, D, Int]:
        """The index of the greatest along `dim`. `[.., n] -> [.., 1]`.
        Torch: `torch.argmax(x, dim, keepdim=True)`. Differs: the indices are of the backend's int type.
        """
    def argmin(self: Numeric[B, D], dim: int, keepdim: None = None) -> Tensor[B, D, Int]:
        """The index of the smallest along `dim`. `[.., n] -> [.., 1]`.
        Torch: `torch.argmin(x, dim, keepdim=True)`. Differs: the indices are of the backend's int type.
        """
    def max(self: Numeric[B, D], dim: None = None, keepdim: None = None) -> Tensor[B, D1, K]:
        """The greatest of all elements, of which there is at least one. `[..] -> [1]`.
        Torch: `torch.max(x)`. Differs: shape `[1]`; of equal elements the first alone has a gradient.
        """
    def min(self: Numeric[B, D], dim: None = None, keepdim: None = None) -> Tensor[B, D1, K]:
        """The smallest of all elements, of which there is at least one. `[..] -> [1]`.
        Torch: `torch.min(x)`. Differs: shape `[1]`; of equal elements the first alone has a gradient.
        """
    def max_abs(self: Numeric[B, D], dim: None = None, keepdim: None = None) -> Tensor[B, D1, K]:
        """The greatest magnitude of all elements, of which there is at least one. `[..] -> [1]`.
        Torch: `x.abs().max()`. Differs: shape `[1]`; of equal elements the first alone has a gradient.
        """
    def max_dim(self: Numeric[B, D], dim: int) -> Tensor[B, D, K]:
        """The greatest along `dim`. `[.., n, ..] -> [.., 1, ..]`.
        Torch: `torch.amax(x, dim, keepdim=True)`. Differs: of equal elements the first alone has a gradient.
        """
    def min_dim(self: Numeric[B, D], dim: int) -> Tensor[B, D, K]:
        """The smallest along `dim`. `[.., n, ..] -> [.., 1, ..]`.
        Torch: `torch.amin(x, dim, keepdim=True)`. Differs: of equal elements the first alone has a gradient.
        """
    def max_abs_dim(self: Numeric[B, D], dim: int) -> Tensor[B, D, K]:
        """The greatest magnitude along `dim`. `[.., n, ..] -> [.., 1, ..]`.
        Torch: `x.abs().amax(dim, keepdim=True)`. Differs: of equal elements the first alone has a gradient.
        """
    def max_dims(self: Numeric[B, D], dims: Sequence[int]) -> Tensor[B, D, K]:
        """The greatest over `dims`. `[.., n, ..] -> [.., 1, ..]`.
        Torch: `torch.amax(x, dims, keepdim=True)`. Differs: none given means none reduced; of equal elements the
        first alone has a gradient.
        """
    def min_dims(self: Numeric[B, D], dims: Sequence[int]) -> Tensor[B, D, K]:
        """The smallest over `dims`. `[.., n, ..] -> [.., 1, ..]`.
        Torch: `torch.amin(x, dims, keepdim=True)`. Differs: none given means none reduced; of equal elements the
        first alone has a gradient.
        """
    def max_dim_with_indices(self: Numeric[B, D], dim: int) -> tuple[Tensor[B, D, K], Tensor[B, D, Int]]:
        """The greatest along `dim`, and where it is. `[.., n] -> 2 of [.., 1]`.
        Torch: `torch.max(x, dim, keepdim=True)`. Differs: the indices are of the backend's int type.
        """
    def min_dim_with_indices(self: Numeric[B, D], dim: int) -> tuple[Tensor[B, D, K], Tensor[B, D, Int]]:
        """The smallest along `dim`, and where it is. `[.., n] -> 2 of [.., 1]`.
        Torch: `torch.min(x, dim, keepdim=True)`. Differs: the indices are of the backend's int type.
        """
    def sum_dims(self: Numeric[B, D], dims: Sequence[int]) -> Tensor[B, D, K]:
        """Sums over `dims`. `[.., n, ..] -> [.., 1, ..]`. Torch: `torch.sum(x, dims, keepdim=True)`.
        Differs: none given means none summed; Int keeps its dtype.
        """
    @overload
    def sum_dims_squeeze(self: Numeric[B, D2], dims: tuple[int]) -> Tensor[B, D1, K]: ...
    @overload
    def sum_dims_squeeze(self: Numeric[B, D3], dims: tuple[int]) -> Tensor[B, D2, K]: ...
    @overload
    def sum_dims_squeeze(self: Numeric[B, D3], dims: tuple[int, int]) -> Tensor[B, D1, K]: ...
    @overload
    def sum_dims_squeeze(self: Numeric[B, D4], dims: tuple[int]) -> Tensor[B, D3, K]: ...
    @overload
    def sum_dims_squeeze(self: Numeric[B, D4], dims: tuple[int, int]) -> Tensor[B, D2, K]: ...
    @overload
    def sum_dims_squeeze(self: Numeric[B, D4], dims: tuple[int, int, int]) -> Tensor[B, D1, K]: ...
    @overload
    def sum_dims_squeeze(self: Numeric[B, D], dims: Sequence[int]) -> Tensor[B, Any, K]:
        """Sums over `dims`, which are dropped. `[a, n, b] -> [a, b]`. Torch: `torch.sum(x, dims)`.
        Differs: at least one dimension stays; none given means none summed; Int keeps its dtype.
        """
    def mean(self: Numeric[B, D], dim: None = None, keepdim: None = None) -> Tensor[B, D1, K]:
        """The mean of all elements. `[..] -> [1]`. Torch: `torch.mean(x)`.
        Differs: shape `[1]`; of Int the whole part.
        """
    def mean_dim(self: Numeric[B, D], dim: int) -> Tensor[B, D, K]:
        """Means along `dim`. `[.., n, ..] -> [.., 1, ..]`. Torch: `torch.mean(x, dim, keepdim=True)`.
        Differs: of Int the whole part, in its dtype.
        """
    def mean_dims(self: Numeric[B, D], dims: Sequence[int]) -> Tensor[B, D, K]:
        """Means over `dims`. `[.., n, ..] -> [.., 1, ..]`. Torch: `torch.mean(x, dims, keepdim=True)`.
        Differs: none given means no mean taken; of Int the whole part, one dimension after the other, in its dtype.
        """
    def prod_dims(self: Numeric[B, D], dims: Sequence[int]) -> Tensor[B, D, K]:
        """Products over `dims`. `[.., n, ..] -> [.., 1, ..]`.
        Torch: `torch.prod(x, dim, keepdim=True)`, for one dimension after the other. Differs: Int keeps its dtype.
        """
    def max_abs_dims(self: Numeric[B, D], dims: Sequence[int]) -> Tensor[B, D, K]:
        """The greatest magnitude over `dims`. `[.., n, ..] -> [.., 1, ..]`. Torch: `x.abs().amax(dims, keepdim=True)`.
        Differs: none given gives the magnitude of each; of equal elements the first alone has a gradient.
        """
