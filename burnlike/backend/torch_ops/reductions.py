"""Reductions, extremes, statistics and sorting, in torch."""

from typing import Any

import torch
from torch import Tensor

from .creation import as_indices, at_least_float32


class TorchReductionOps:
    """Implements `ReductionOps` for Float."""

    sum_dim: Any = staticmethod(Tensor.sum)
    mean_dim: Any = staticmethod(Tensor.mean)
    prod_dim: Any = staticmethod(Tensor.prod)
    cumsum: Any = staticmethod(Tensor.cumsum)
    cumprod: Any = staticmethod(Tensor.cumprod)

    @staticmethod
    def sum(tensor: Tensor, /) -> Tensor:
        return torch.sum(tensor).ravel()

    @staticmethod
    def mean(tensor: Tensor, /) -> Tensor:
        return torch.mean(tensor).ravel()

    @staticmethod
    def prod(tensor: Tensor, /) -> Tensor:
        return torch.prod(tensor).ravel()

    @staticmethod
    def cummin(tensor: Tensor, dim: int, /) -> Tensor:
        return torch.cummin(tensor, dim)[0]

    @staticmethod
    def cummax(tensor: Tensor, dim: int, /) -> Tensor:
        return torch.cummax(tensor, dim)[0]


class TorchIntReductionOps:
    """Int's own `ReductionOps`: torch would widen to int64, and has no means of integers."""

    @staticmethod
    def sum(tensor: Tensor, /) -> Tensor:
        return torch.sum(tensor, dtype=tensor.dtype).ravel()

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
    def prod(tensor: Tensor, /) -> Tensor:
        return torch.prod(tensor, dtype=tensor.dtype).ravel()

    @staticmethod
    def prod_dim(tensor: Tensor, dim: int, keepdim: bool, /) -> Tensor:
        return torch.prod(tensor, dim, keepdim, dtype=tensor.dtype)

    @staticmethod
    def cumsum(tensor: Tensor, dim: int, /) -> Tensor:
        return torch.cumsum(tensor, dim, dtype=tensor.dtype)

    @staticmethod
    def cumprod(tensor: Tensor, dim: int, /) -> Tensor:
        return torch.cumprod(tensor, dim, dtype=tensor.dtype)


def _truncated(total: Tensor, count: int, dtype: torch.dtype) -> Tensor:
    return torch.div(total, count, rounding_mode="trunc").to(dtype)


class TorchExtremeOps:
    """Implements `ExtremeOps`.

    torch's `amax` and `amin` are the fastest, but spread the gradient over equal elements; `max` and `min` along a
    dimension give it to the first alone, so they compute what is tracked.
    """

    @staticmethod
    def max(tensor: Tensor, /) -> Tensor:
        if tensor.requires_grad:
            return torch.max(tensor.reshape(-1), 0, True)[0]
        return torch.amax(tensor, 0, True) if tensor.ndim == 1 else torch.amax(tensor).ravel()

    @staticmethod
    def min(tensor: Tensor, /) -> Tensor:
        if tensor.requires_grad:
            return torch.min(tensor.reshape(-1), 0, True)[0]
        return torch.amin(tensor, 0, True) if tensor.ndim == 1 else torch.amin(tensor).ravel()

    @staticmethod
    def max_dim(tensor: Tensor, dim: int | list[int], /) -> Tensor:
        if not tensor.requires_grad:
            return torch.amax(tensor, dim, True)
        for each in [dim] if isinstance(dim, int) else dim:
            tensor = torch.max(tensor, each, True)[0]
        return tensor

    @staticmethod
    def min_dim(tensor: Tensor, dim: int | list[int], /) -> Tensor:
        if not tensor.requires_grad:
            return torch.amin(tensor, dim, True)
        for each in [dim] if isinstance(dim, int) else dim:
            tensor = torch.min(tensor, each, True)[0]
        return tensor

    @staticmethod
    def max_dim_with_indices(tensor: Tensor, dim: int, dtype: torch.dtype, /) -> tuple[Tensor, Tensor]:
        values, indices = torch.max(tensor, dim, True)
        return values, as_indices(indices, tensor.shape[dim], dtype)

    @staticmethod
    def min_dim_with_indices(tensor: Tensor, dim: int, dtype: torch.dtype, /) -> tuple[Tensor, Tensor]:
        values, indices = torch.min(tensor, dim, True)
        return values, as_indices(indices, tensor.shape[dim], dtype)

    @staticmethod
    def max_abs(tensor: Tensor, /) -> Tensor:
        return TorchExtremeOps.max(torch.abs(tensor))

    @staticmethod
    def max_abs_dim(tensor: Tensor, dim: int | list[int], /) -> Tensor:
        return TorchExtremeOps.max_dim(torch.abs(tensor), dim)

    @staticmethod
    def argmax(tensor: Tensor, dim: int, dtype: torch.dtype, /) -> Tensor:
        indices = torch.argmax(tensor, dim, True)
        return as_indices(indices, tensor.shape[dim], dtype)

    @staticmethod
    def argmin(tensor: Tensor, dim: int, dtype: torch.dtype, /) -> Tensor:
        indices = torch.argmin(tensor, dim, True)
        return as_indices(indices, tensor.shape[dim], dtype)


class TorchStatsOps:
    """Implements `StatsOps`."""

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
    def cross(lhs: Tensor, rhs: Tensor, dim: int, /) -> Tensor:
        return torch.linalg.cross(lhs, rhs, dim=dim)

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


class TorchSortOps:
    """Implements `SortOps`."""

    @staticmethod
    def sort(tensor: Tensor, dim: int, descending: bool, /) -> Tensor:
        return torch.sort(tensor, dim, descending)[0]

    @staticmethod
    def sort_with_indices(tensor: Tensor, dim: int, descending: bool, dtype: torch.dtype, /) -> tuple[Tensor, Tensor]:
        values, indices = torch.sort(tensor, dim, descending)
        return values, as_indices(indices, tensor.shape[dim], dtype)

    @staticmethod
    def argsort(tensor: Tensor, dim: int, descending: bool, dtype: torch.dtype, /) -> Tensor:
        indices = torch.argsort(tensor, dim, descending)
        return as_indices(indices, tensor.shape[dim], dtype)

    @staticmethod
    def topk(tensor: Tensor, k: int, dim: int, /) -> Tensor:
        return torch.topk(tensor, k, dim)[0]

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
    nan, least_nan = tensor != tensor, least != least
    above = torch.where(least_nan, False, nan | (tensor > least))
    equal = torch.where(least_nan, nan, tensor == least)
    places = torch.arange(size, device=tensor.device).view([-1 if it == dim else 1 for it in range(tensor.ndim)])
    ranked = torch.where(above, places, torch.where(equal, places + size, 2 * size))
    chosen = torch.topk(ranked, k, dim, largest=False)[0] % size
    order = torch.sort(tensor.gather(dim, chosen), dim=dim, descending=True, stable=True)[1]
    return chosen.gather(dim, order)
