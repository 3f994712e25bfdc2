"""Functions of numbers (Float and Int): reductions, extremes, sorting; statistics of Float."""

from typing import Any, Protocol

import torch
from torch import Tensor

from .creation import as_indices, at_least_float32


class ReductionOps(Protocol):
    """Sums, means and products, in the tensor's dtype. With `keepdim` a reduced dimension stays, of size 1.

    Functions:
        sum: The sum of all elements, `[1]`.
        sum_dim: Sums over one or several different dimensions, at least one.
        mean: The mean of all elements, `[1]`; of integers, of which there is at least one, its whole part.
        mean_dim: Means over one or several different dimensions; of integers the whole part, one after the other.
        cumsum: Running sums along a dimension.
        cumprod: Running products along a dimension.
        cummin: The smallest so far along a dimension; NaN from the first NaN on.
        cummax: The largest so far along a dimension; NaN from the first NaN on.
    """

    def sum(self, tensor: Tensor, /) -> Tensor: ...
    def sum_dim(self, tensor: Tensor, dim: int | list[int], keepdim: bool, /) -> Tensor: ...
    def mean(self, tensor: Tensor, /) -> Tensor: ...
    def mean_dim(self, tensor: Tensor, dim: int | list[int], keepdim: bool, /) -> Tensor: ...
    def prod(self, tensor: Tensor, /) -> Tensor: ...
    def prod_dim(self, tensor: Tensor, dim: int, keepdim: bool, /) -> Tensor: ...
    def cumsum(self, tensor: Tensor, dim: int, /) -> Tensor: ...
    def cumprod(self, tensor: Tensor, dim: int, /) -> Tensor: ...
    def cummin(self, tensor: Tensor, dim: int, /) -> Tensor: ...
    def cummax(self, tensor: Tensor, dim: int, /) -> Tensor: ...


class TorchReductionOps:
    """Implements `ReductionOps` for Float."""

    sum_dim: Any = staticmethod(Tensor.sum)
    mean_dim: Any = staticmethod(Tensor.mean)
    prod_dim: Any = staticmethod(Tensor.prod)
    cumsum: Any = staticmethod(Tensor.cumsum)
    cumprod: Any = staticmethod(Tensor.cumprod)
    sum: Any = staticmethod(lambda tensor, /: torch.sum(tensor).ravel())
    mean: Any = staticmethod(lambda tensor, /: torch.mean(tensor).ravel())
    prod: Any = staticmethod(lambda tensor, /: torch.prod(tensor).ravel())
    cummin: Any = staticmethod(lambda tensor, dim, /: torch.cummin(tensor, dim)[0])
    cummax: Any = staticmethod(lambda tensor, dim, /: torch.cummax(tensor, dim)[0])


class TorchIntReductionOps:
    """Int's own `ReductionOps`: torch would widen to int64, and has no means of integers."""

    sum: Any = staticmethod(lambda tensor, /: torch.sum(tensor, dtype=tensor.dtype).ravel())
    prod: Any = staticmethod(lambda tensor, /: torch.prod(tensor, dtype=tensor.dtype).ravel())
    cumsum: Any = staticmethod(lambda tensor, dim, /: torch.cumsum(tensor, dim, dtype=tensor.dtype))
    cumprod: Any = staticmethod(lambda tensor, dim, /: torch.cumprod(tensor, dim, dtype=tensor.dtype))

    @staticmethod
    def sum_dim(tensor: Tensor, dim: int | list[int], keepdim: bool, /) -> Tensor:
        return torch.sum(tensor, dim, keepdim, dtype=tensor.dtype)

    @staticmethod
    def mean(tensor: Tensor, /) -> Tensor:
        return _truncated(torch.sum(tensor), tensor.numel(), tensor.dtype).ravel()

    @staticmethod
    def mean_dim(tensor: Tensor, dim: int | list[int], keepdim: bool, /) -> Tensor:
        dims = (dim,) if isinstance(dim, int) else tuple(dim)
        for each in dims:
            tensor = _truncated(torch.sum(tensor, each, True), tensor.shape[each], tensor.dtype)
        return tensor if keepdim else tensor.squeeze(dims)

    @staticmethod
    def prod_dim(tensor: Tensor, dim: int, keepdim: bool, /) -> Tensor:
        return torch.prod(tensor, dim, keepdim, dtype=tensor.dtype)


def _truncated(total: Tensor, count: int, dtype: torch.dtype) -> Tensor:
    return torch.div(total, count, rounding_mode="trunc").to(dtype)


class ExtremeOps(Protocol):
    """Extremes; NaN wins over all numbers. What is reduced has at least one element, and stays with size 1.

    Of equal elements the first is meant, and the gradient goes to it alone.

    Functions:
        max: The greatest of all elements, `[1]`.
        min: The smallest of all elements, `[1]`.
        max_dim: The greatest along one or several different dimensions.
        min_dim: The smallest along one or several different dimensions.
        max_dim_with_indices: The greatest along a dimension, and where it is, in `dtype`.
        min_dim_with_indices: The smallest along a dimension, and where it is, in `dtype`.
        max_abs: The greatest magnitude of all elements, `[1]`.
        max_abs_dim: The greatest magnitude along one or several different dimensions.
        argmax: Where the greatest along a dimension is, in `dtype`.
        argmin: Where the smallest along a dimension is, in `dtype`.
    """

    def max(self, tensor: Tensor, /) -> Tensor: ...
    def min(self, tensor: Tensor, /) -> Tensor: ...
    def max_dim(self, tensor: Tensor, dim: int | list[int], /) -> Tensor: ...
    def min_dim(self, tensor: Tensor, dim: int | list[int], /) -> Tensor: ...
    def max_dim_with_indices(self, tensor: Tensor, dim: int, dtype: torch.dtype, /) -> tuple[Tensor, Tensor]: ...
    def min_dim_with_indices(self, tensor: Tensor, dim: int, dtype: torch.dtype, /) -> tuple[Tensor, Tensor]: ...
    def max_abs(self, tensor: Tensor, /) -> Tensor: ...
    def max_abs_dim(self, tensor: Tensor, dim: int | list[int], /) -> Tensor: ...
    def argmax(self, tensor: Tensor, dim: int, dtype: torch.dtype, /) -> Tensor: ...
    def argmin(self, tensor: Tensor, dim: int, dtype: torch.dtype, /) -> Tensor: ...


def _extremes(along_dims: Any, along_dim: Any, place: Any) -> tuple[Any, Any, Any, Any]:
    """The functions of the greatest or the smallest: of all, along dimensions, with its place, its place alone.

    `amax` and `amin` are the fastest, but spread the gradient over equal elements; `max` and `min` along a dimension
    give it to the first alone, so they compute what is tracked.

    Args:
        along_dims: torch's `amax` or `amin`.
        along_dim: torch's `max` or `min`.
        place: torch's `argmax` or `argmin`.
    """

    def of_all(tensor: Tensor, /) -> Tensor:
        if tensor.requires_grad:
            return along_dim(tensor.reshape(-1), 0, True)[0]
        return along_dims(tensor, 0, True) if tensor.ndim == 1 else along_dims(tensor).ravel()

    def of_dims(tensor: Tensor, dim: int | list[int], /) -> Tensor:
        if not tensor.requires_grad:
            return along_dims(tensor, dim, True)
        for each in [dim] if isinstance(dim, int) else dim:
            tensor = along_dim(tensor, each, True)[0]
        return tensor

    def with_indices(tensor: Tensor, dim: int, dtype: torch.dtype, /) -> tuple[Tensor, Tensor]:
        values, indices = along_dim(tensor, dim, True)
        return values, as_indices(indices, tensor.shape[dim], dtype)

    def indices_alone(tensor: Tensor, dim: int, dtype: torch.dtype, /) -> Tensor:
        indices = place(tensor, dim, True)  # the usual type needs no size, whose reading takes a fifth of a small call
        return indices if dtype is torch.int64 else as_indices(indices, tensor.shape[dim], dtype)

    return staticmethod(of_all), staticmethod(of_dims), staticmethod(with_indices), staticmethod(indices_alone)


class TorchExtremeOps:
    """Implements `ExtremeOps`."""

    max, max_dim, max_dim_with_indices, argmax = _extremes(torch.amax, torch.max, torch.argmax)
    min, min_dim, min_dim_with_indices, argmin = _extremes(torch.amin, torch.min, torch.argmin)
    max_abs: Any = staticmethod(lambda tensor, /: TorchExtremeOps.max(torch.abs(tensor)))
    max_abs_dim: Any = staticmethod(lambda tensor, dim, /: TorchExtremeOps.max_dim(torch.abs(tensor), dim))


class StatsOps(Protocol):
    """Statistics along a dimension, which stays with size 1, cross products and sampling by weights.

    Functions:
        var: Sums of squared distances from the mean divided by n, if unbiased by n - 1; NaN where that is 0 or less.
        var_mean: `var`, and the mean.
        median: The lower median of at least one element; NaN counts as the greatest.
        median_with_indices: `median`, and where along `dim` it is, in `dtype`.
        cov: X^T X / (n - correction), batched; X centred along `dim`, of size n, and with `dim` and 0 swapped.
        cross: Cross products along `dim`, of size 3; other sizes are equal or 1.
        categorical: `[.., n] -> [.., num_samples]`: indices in `dtype`, drawn with replacement; errors of weights are
            torch's.
    """

    def var(self, tensor: Tensor, dim: int, unbiased: bool, /) -> Tensor: ...
    def var_mean(self, tensor: Tensor, dim: int, unbiased: bool, /) -> tuple[Tensor, Tensor]: ...
    def median(self, tensor: Tensor, dim: int, /) -> Tensor: ...
    def median_with_indices(self, tensor: Tensor, dim: int, dtype: torch.dtype, /) -> tuple[Tensor, Tensor]: ...
    def cov(self, tensor: Tensor, dim: int, correction: int, /) -> Tensor: ...
    def cross(self, lhs: Tensor, rhs: Tensor, dim: int, /) -> Tensor: ...
    def categorical(self, weights: Tensor, num_samples: int, dtype: torch.dtype, /) -> Tensor: ...


class TorchStatsOps:
    """Implements `StatsOps`."""

    cross: Any = staticmethod(lambda lhs, rhs, dim, /: torch.linalg.cross(lhs, rhs, dim=dim))

    @staticmethod
    def var(tensor: Tensor, dim: int, unbiased: bool, /) -> Tensor:
        if tensor.shape[dim] <= int(unbiased) or not tensor.numel():
            return _undefined(tensor, dim)
        return torch.var(tensor, dim, unbiased, True)

    @staticmethod
    def var_mean(tensor: Tensor, dim: int, unbiased: bool, /) -> tuple[Tensor, Tensor]:
        if tensor.shape[dim] <= int(unbiased) or not tensor.numel():
            return _undefined(tensor, dim), torch.mean(tensor, dim, True)
        # Not torch.var_mean: its mean beside an infinity is NaN.
        return torch.var(tensor, dim, unbiased, True), torch.mean(tensor, dim, True)

    @staticmethod
    def median(tensor: Tensor, dim: int, /) -> Tensor:
        # Not torch.median, which is NaN where any element is.
        return torch.kthvalue(tensor, (tensor.shape[dim] + 1) // 2, dim, True)[0]

    @staticmethod
    def median_with_indices(tensor: Tensor, dim: int, dtype: torch.dtype, /) -> tuple[Tensor, Tensor]:
        values, indices = torch.kthvalue(tensor, (tensor.shape[dim] + 1) // 2, dim, True)
        return values, as_indices(indices, tensor.shape[dim], dtype)

    @staticmethod
    def cov(tensor: Tensor, dim: int, correction: int, /) -> Tensor:
        centred = (tensor - torch.mean(tensor, dim, True)).transpose(0, dim)
        return torch.matmul(centred.transpose(-2, -1), centred) / (tensor.shape[dim] - correction)

    @staticmethod
    def categorical(weights: Tensor, num_samples: int, dtype: torch.dtype, /) -> Tensor:
        weights = at_least_float32(weights)  # running sums of half precision would stop to grow
        rows = weights if weights.ndim <= 2 else weights.flatten(0, -2)
        indices = torch.multinomial(rows, num_samples, True)
        if weights.ndim > 2:
            indices = indices.view(*weights.shape[:-1], num_samples)
        return as_indices(indices, weights.shape[-1], dtype)


def _undefined(tensor: Tensor, dim: int) -> Tensor:
    """0 / 0, with the history of `tensor`: torch calculates the same, but warns."""
    return torch.mean(tensor - tensor, dim, True) / 0


_SORTED_WHOLE = 256


class SortOps(Protocol):
    """Sorting along a dimension; NaN is the greatest. Equal elements come in any order unless said otherwise.

    Functions:
        sort_with_indices: The elements in order, and where each was, in `dtype`.
        argsort: Where each of the elements in order was, in `dtype`.
        topk: The `k` greatest, descending; 0 <= k <= size of `dim`.
        topk_with_indices: The `k` greatest, descending, and where each is, in `dtype`.
        argtopk: Where the `k` greatest are, in `dtype`; of equal ones the first, and in their order.
    """

    def sort(self, tensor: Tensor, dim: int, descending: bool, /) -> Tensor: ...
    def sort_with_indices(
        self, tensor: Tensor, dim: int, descending: bool, dtype: torch.dtype, /
    ) -> tuple[Tensor, Tensor]: ...
    def argsort(self, tensor: Tensor, dim: int, descending: bool, dtype: torch.dtype, /) -> Tensor: ...
    def topk(self, tensor: Tensor, k: int, dim: int, /) -> Tensor: ...
    def topk_with_indices(self, tensor: Tensor, k: int, dim: int, dtype: torch.dtype, /) -> tuple[Tensor, Tensor]: ...
    def argtopk(self, tensor: Tensor, k: int, dim: int, dtype: torch.dtype, /) -> Tensor: ...


class TorchSortOps:
    """Implements `SortOps`."""

    sort: Any = staticmethod(lambda tensor, dim, descending, /: torch.sort(tensor, dim, descending)[0])
    topk: Any = staticmethod(lambda tensor, k, dim, /: torch.topk(tensor, k, dim)[0])

    @staticmethod
    def sort_with_indices(tensor: Tensor, dim: int, descending: bool, dtype: torch.dtype, /) -> tuple[Tensor, Tensor]:
        values, indices = torch.sort(tensor, dim, descending)
        return values, as_indices(indices, tensor.shape[dim], dtype)

    @staticmethod
    def argsort(tensor: Tensor, dim: int, descending: bool, dtype: torch.dtype, /) -> Tensor:
        indices = torch.argsort(tensor, dim, descending)
        return as_indices(indices, tensor.shape[dim], dtype)

    @staticmethod
    def topk_with_indices(tensor: Tensor, k: int, dim: int, dtype: torch.dtype, /) -> tuple[Tensor, Tensor]:
        values, indices = torch.topk(tensor, k, dim)
        return values, as_indices(indices, tensor.shape[dim], dtype)

    @staticmethod
    def argtopk(tensor: Tensor, k: int, dim: int, dtype: torch.dtype, /) -> Tensor:
        size = tensor.shape[dim]
        if k <= 0 or size <= _SORTED_WHOLE or 2 * k > size:
            order = torch.sort(tensor, dim=dim, descending=True, stable=True)[1]
            indices = order if k == size else order.narrow(dim, 0, k)
        else:
            indices = _first_greatest(tensor.detach(), k, dim)
        return as_indices(indices, size, dtype)


def _first_greatest(tensor: Tensor, k: int, dim: int) -> Tensor:
    """The first k of a stable descending sort, without sorting all: `topk` alone takes any of equal elements."""
    size = tensor.shape[dim]
    least = torch.topk(tensor, k, dim)[0].narrow(dim, k - 1, 1)
    # NaN is the greatest, and equal to itself here.
    nan, least_nan = tensor != tensor, least != least
    above = torch.where(least_nan, False, nan | (tensor > least))
    equal = torch.where(least_nan, nan, tensor == least)
    places = torch.arange(size, device=tensor.device).view([-1 if index == dim else 1 for index in range(tensor.ndim)])
    ranked = torch.where(above, places, torch.where(equal, places + size, 2 * size))
    chosen = torch.topk(ranked, k, dim, largest=False)[0] % size
    order = torch.sort(tensor.gather(dim, chosen), dim=dim, descending=True, stable=True)[1]
    return chosen.gather(dim, order)
