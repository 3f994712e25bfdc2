"""Statistics, cross products and sampling by weights, in torch."""

import torch
from torch import Tensor

from ...errors import TensorValueError


class TorchStatsOps:
    """Implements `StatsOps`."""

    @staticmethod
    def var(tensor: Tensor, dim: int, correction: int, /) -> Tensor:
        if tensor.shape[dim] <= correction:
            return _undefined(tensor, dim)
        return torch.var(tensor, dim, correction=correction, keepdim=True)

    @staticmethod
    def var_mean(tensor: Tensor, dim: int, correction: int, /) -> tuple[Tensor, Tensor]:
        if tensor.shape[dim] <= correction:
            return _undefined(tensor, dim), torch.mean(tensor, dim, True)
        return torch.var_mean(tensor, dim, correction=correction, keepdim=True)

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
        # The inverse of the distribution function, in float64: a draw is then always below the total, and its
        # category, the first whose running sum is above it, never one of weight 0.
        sums = torch.cumsum(weights.detach(), -1, dtype=torch.float64).contiguous()
        totals = sums[..., -1:]
        if weights.device.type == "cpu" and not torch.compiler.is_compiling():
            _check_weights(weights, totals)
        draws = torch.rand([*weights.shape[:-1], num_samples], dtype=torch.float64, device=weights.device) * totals
        indices = torch.searchsorted(sums, draws, right=True).clamp_(max=weights.shape[-1] - 1)
        return indices if dtype is torch.int64 else indices.to(dtype)


def _undefined(tensor: Tensor, dim: int) -> Tensor:
    """0 / 0, with the history of `tensor`: torch calculates the same, but warns."""
    return torch.mean(tensor - tensor, dim, True) / 0


def _check_weights(weights: Tensor, totals: Tensor) -> None:
    if weights.numel() == 0:
        return
    least, (low, high) = weights.amin().item(), (it.item() for it in torch.aminmax(totals))
    if not (least >= 0 and low > 0 and high < float("inf")):
        raise TensorValueError(
            "Categorical",
            "expected weights of 0 or more with a positive, finite sum in each slice along the last dimension,"
            f" got a least weight of {least} and sums from {low} to {high}",
        )
