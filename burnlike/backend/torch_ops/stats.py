"""Statistics, cross products and sampling by weights, in torch."""

import torch
from torch import Tensor

from .precision import at_least_float32


class TorchStatsOps:
    """Implements `StatsOps`."""

    @staticmethod
    def var(tensor: Tensor, dim: int, unbiased: bool, /) -> Tensor:
        if tensor.shape[dim] <= int(unbiased):
            return _undefined(tensor, dim)
        return torch.var(tensor, dim, unbiased, True)

    @staticmethod
    def var_mean(tensor: Tensor, dim: int, unbiased: bool, /) -> tuple[Tensor, Tensor]:
        if tensor.shape[dim] <= int(unbiased):
            return _undefined(tensor, dim), torch.mean(tensor, dim, True)
        return torch.var_mean(tensor, dim, unbiased, True)

    @staticmethod
    def median(tensor: Tensor, dim: int, /) -> Tensor:
        return torch.kthvalue(tensor, (tensor.shape[dim] + 1) // 2, dim, True)[0]

    @staticmethod
    def median_with_indices(tensor: Tensor, dim: int, dtype: torch.dtype, /) -> tuple[Tensor, Tensor]:
        values, indices = torch.kthvalue(tensor, (tensor.shape[dim] + 1) // 2, dim, True)
        return values, indices if dtype is torch.int64 else indices.to(dtype)

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
        return indices if dtype is torch.int64 else indices.to(dtype)


def _undefined(tensor: Tensor, dim: int) -> Tensor:
    """0 / 0, with the history of `tensor`: torch calculates the same, but warns."""
    return torch.mean(tensor - tensor, dim, True) / 0
