"""The greatest and the smallest, in torch.

torch's `amax` and `amin` are the fastest, but spread the gradient over equal elements; `max` and `min` along a
dimension give it to the first alone, so they calculate what is tracked.
"""

import torch
from torch import Tensor


class TorchExtremeOps:
    """Implements `ExtremeOps`."""

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
        return values, indices if dtype is torch.int64 else indices.to(dtype)

    @staticmethod
    def min_dim_with_indices(tensor: Tensor, dim: int, dtype: torch.dtype, /) -> tuple[Tensor, Tensor]:
        values, indices = torch.min(tensor, dim, True)
        return values, indices if dtype is torch.int64 else indices.to(dtype)

    @staticmethod
    def max_abs(tensor: Tensor, /) -> Tensor:
        return TorchExtremeOps.max(torch.abs(tensor))

    @staticmethod
    def max_abs_dim(tensor: Tensor, dim: int | list[int], /) -> Tensor:
        return TorchExtremeOps.max_dim(torch.abs(tensor), dim)

    @staticmethod
    def argmax(tensor: Tensor, dim: int, dtype: torch.dtype, /) -> Tensor:
        indices = torch.argmax(tensor, dim, True)
        return indices if dtype is torch.int64 else indices.to(dtype)

    @staticmethod
    def argmin(tensor: Tensor, dim: int, dtype: torch.dtype, /) -> Tensor:
        indices = torch.argmin(tensor, dim, True)
        return indices if dtype is torch.int64 else indices.to(dtype)
