"""Comparisons, and reductions to Bool, in torch."""

from typing import Any

import torch
from torch import Tensor


class TorchComparisonOps:
    """Implements `ComparisonOps`. Torch reduces uint8 to uint8: that is converted."""

    equal: Any = staticmethod(Tensor.eq)
    not_equal: Any = staticmethod(Tensor.ne)

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

    greater: Any = staticmethod(Tensor.gt)
    greater_equal: Any = staticmethod(Tensor.ge)
    lower: Any = staticmethod(Tensor.lt)
    lower_equal: Any = staticmethod(Tensor.le)
