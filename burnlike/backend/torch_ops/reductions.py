"""Sums, means, products and running forms, in torch."""

from typing import Any

import torch
from torch import Tensor


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
    """What `ReductionOps` of Int have of their own: torch would widen to int64, and has no means of integers."""

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
