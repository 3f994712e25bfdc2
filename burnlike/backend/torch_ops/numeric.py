"""Arithmetic, in torch."""

from typing import Any

import torch
from torch import Tensor

from .basic import TorchBasicOps
from .creation import TorchNumericCreationOps
from .padding import TorchPaddingOps


class TorchNumericOps(TorchBasicOps, TorchNumericCreationOps, TorchPaddingOps):
    """Implements `NumericOps` for Float; `TorchIntOps` replaces what torch promotes."""

    add: Any = staticmethod(torch.add)
    sub: Any = staticmethod(torch.sub)
    rsub: Any = staticmethod(torch.rsub)
    mul: Any = staticmethod(torch.mul)
    div: Any = staticmethod(torch.div)
    remainder: Any = staticmethod(torch.remainder)
    powi: Any = staticmethod(torch.pow)
    neg: Any = staticmethod(torch.neg)
    sign: Any = staticmethod(torch.sign)
    abs: Any = staticmethod(torch.abs)
    square: Any = staticmethod(torch.square)
    matmul: Any = staticmethod(torch.matmul)
    clamp_min: Any = staticmethod(torch.clamp_min)
    clamp_max: Any = staticmethod(torch.clamp_max)

    @staticmethod
    def rremainder(tensor: Tensor, scalar: float | int, /) -> Tensor:
        return torch.remainder(scalar, tensor)

    @staticmethod
    def rpowi(tensor: Tensor, scalar: float | int, /) -> Tensor:
        return torch.pow(scalar, tensor)

    @staticmethod
    def dot(lhs: Tensor, rhs: Tensor, /) -> Tensor:
        return torch.dot(lhs, rhs).reshape(1)

    @staticmethod
    def clamp(tensor: Tensor, minimum: float | int, maximum: float | int, /) -> Tensor:
        if minimum > maximum:  # torch lets the maximum win
            return torch.clamp_min(torch.clamp_max(tensor, maximum), minimum)
        return torch.clamp(tensor, minimum, maximum)

    @staticmethod
    def max_pair(lhs: Tensor, rhs: Tensor, /) -> Tensor:
        return torch.where(lhs < rhs, rhs, lhs)

    @staticmethod
    def min_pair(lhs: Tensor, rhs: Tensor, /) -> Tensor:
        return torch.where(rhs < lhs, rhs, lhs)
