"""Logic, positions of what is set, triangular masks, in torch."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


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
