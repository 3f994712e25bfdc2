"""Arithmetic, in torch."""

from typing import Any

import torch
from torch import Tensor

from .basic import TorchBasicOps
from .creation import TorchNumericCreationOps
from .padding import TorchPaddingOps


class TorchNumericOps(TorchBasicOps, TorchNumericCreationOps, TorchPaddingOps):
    """Implements `NumericOps` for Float; `TorchIntOps` replaces what torch promotes."""

    add: Any = staticmethod(Tensor.add)
    sub: Any = staticmethod(Tensor.sub)
    rsub: Any = staticmethod(torch.rsub)
    mul: Any = staticmethod(Tensor.mul)
    div: Any = staticmethod(Tensor.div)
    remainder: Any = staticmethod(Tensor.remainder)
    powi: Any = staticmethod(Tensor.pow)
    neg: Any = staticmethod(Tensor.neg)
    sign: Any = staticmethod(Tensor.sign)
    abs: Any = staticmethod(Tensor.abs)
    square: Any = staticmethod(Tensor.square)
    matmul: Any = staticmethod(Tensor.matmul)
    clamp_min: Any = staticmethod(Tensor.clamp_min)
    clamp_max: Any = staticmethod(Tensor.clamp_max)

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
