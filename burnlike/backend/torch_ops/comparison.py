"""Comparisons, and reductions to Bool, in torch."""

import torch
from torch import Tensor


class TorchComparisonOps:
    """Implements `ComparisonOps`. Torch reduces uint8 to uint8: that is converted."""

    equal = staticmethod(torch.eq)
    not_equal = staticmethod(torch.ne)

    @staticmethod
    def any(tensor: Tensor, /) -> Tensor:
        out = torch.any(tensor, 0, True) if tensor.ndim == 1 else torch.any(tensor).reshape(1)
        return out if out.dtype is torch.bool else out.bool()

    @staticmethod
    def any_dim(tensor: Tensor, dim: int, /) -> Tensor:
        out = torch.any(tensor, dim, True)
        return out if out.dtype is torch.bool else out.bool()

    @staticmethod
    def all(tensor: Tensor, /) -> Tensor:
        out = torch.all(tensor, 0, True) if tensor.ndim == 1 else torch.all(tensor).reshape(1)
        return out if out.dtype is torch.bool else out.bool()

    @staticmethod
    def all_dim(tensor: Tensor, dim: int, /) -> Tensor:
        out = torch.all(tensor, dim, True)
        return out if out.dtype is torch.bool else out.bool()


class TorchInequalityOps:
    """Implements `InequalityOps`."""

    greater = staticmethod(torch.gt)
    greater_equal = staticmethod(torch.ge)
    lower = staticmethod(torch.lt)
    lower_equal = staticmethod(torch.le)
