"""Comparisons, reductions to Bool, and logic, in torch."""

from collections.abc import Sequence
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


class TorchLogicOps:
    """Implements `LogicOps`. The bitwise functions are those that take scalars as well."""

    bool_not: Any = staticmethod(Tensor.bitwise_not)
    bool_and: Any = staticmethod(Tensor.bitwise_and)
    bool_or: Any = staticmethod(Tensor.bitwise_or)
    bool_xor: Any = staticmethod(Tensor.bitwise_xor)

    @staticmethod
    def argwhere(tensor: Tensor, dtype: torch.dtype, /) -> Tensor:
        return torch.nonzero(tensor).to(dtype)

    @staticmethod
    def nonzero(tensor: Tensor, dtype: torch.dtype, /) -> list[Tensor]:
        found = torch.nonzero(tensor).to(dtype)
        return list(found.unbind(1)) if found.shape[0] else []

    @staticmethod
    def triu_mask(shape: Sequence[int], offset: int, device: torch.device, /) -> Tensor:
        return _ones(shape, device).tril_(offset - 1)

    @staticmethod
    def tril_mask(shape: Sequence[int], offset: int, device: torch.device, /) -> Tensor:
        return _ones(shape, device).triu_(offset + 1)

    @staticmethod
    def diag_mask(shape: Sequence[int], offset: int, device: torch.device, /) -> Tensor:
        ones = _ones(shape, device)
        return ones.tril(offset - 1) | ones.triu(offset + 1)


def _ones(shape: Sequence[int], device: torch.device) -> Tensor:
    sizes = [*[1] * (len(shape) - 2), *shape[-2:]]
    return torch.ones(sizes, dtype=torch.bool, device=device)
