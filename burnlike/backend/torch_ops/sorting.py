"""Sorting, in torch."""

import torch
from torch import Tensor

_SORTED_WHOLE = 256


class TorchSortOps:
    """Implements `SortOps`."""

    @staticmethod
    def sort(tensor: Tensor, dim: int, descending: bool, /) -> Tensor:
        return torch.sort(tensor, dim, descending)[0]

    @staticmethod
    def sort_with_indices(tensor: Tensor, dim: int, descending: bool, dtype: torch.dtype, /) -> tuple[Tensor, Tensor]:
        values, indices = torch.sort(tensor, dim, descending)
        return values, indices if dtype is torch.int64 else indices.to(dtype)

    @staticmethod
    def argsort(tensor: Tensor, dim: int, descending: bool, dtype: torch.dtype, /) -> Tensor:
        indices = torch.argsort(tensor, dim, descending)
        return indices if dtype is torch.int64 else indices.to(dtype)

    @staticmethod
    def topk(tensor: Tensor, k: int, dim: int, /) -> Tensor:
        return torch.topk(tensor, k, dim)[0]

    @staticmethod
    def topk_with_indices(tensor: Tensor, k: int, dim: int, dtype: torch.dtype, /) -> tuple[Tensor, Tensor]:
        values, indices = torch.topk(tensor, k, dim)
        return values, indices if dtype is torch.int64 else indices.to(dtype)

    @staticmethod
    def argtopk(tensor: Tensor, k: int, dim: int, dtype: torch.dtype, /) -> Tensor:
        size = tensor.shape[dim]
        if k <= 0 or size <= _SORTED_WHOLE or 2 * k > size:
            order = torch.sort(tensor, dim=dim, descending=True, stable=True)[1]
            indices = order if k == size else order.narrow(dim, 0, k)
        else:
            indices = _first_greatest(tensor.detach(), k, dim)
        return indices if dtype is torch.int64 else indices.to(dtype)


def _first_greatest(tensor: Tensor, k: int, dim: int) -> Tensor:
    """What a stable descending sort puts first, without sorting all: `topk` alone takes any of equal elements."""
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
