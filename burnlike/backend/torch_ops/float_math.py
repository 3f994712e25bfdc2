"""`FloatMathOps`, in torch."""

from typing import Any

import torch
from torch import Tensor


class TorchFloatMathOps:
    """Implements `FloatMathOps`."""

    exp: Any = staticmethod(torch.exp)
    log: Any = staticmethod(torch.log)
    log1p: Any = staticmethod(torch.log1p)
    sqrt: Any = staticmethod(torch.sqrt)
    recip: Any = staticmethod(torch.reciprocal)
    erf: Any = staticmethod(torch.erf)
    round: Any = staticmethod(torch.round)
    floor: Any = staticmethod(torch.floor)
    ceil: Any = staticmethod(torch.ceil)
    trunc: Any = staticmethod(torch.trunc)
    cos: Any = staticmethod(torch.cos)
    sin: Any = staticmethod(torch.sin)
    tan: Any = staticmethod(torch.tan)
    cosh: Any = staticmethod(torch.cosh)
    sinh: Any = staticmethod(torch.sinh)
    tanh: Any = staticmethod(torch.tanh)
    acos: Any = staticmethod(torch.acos)
    asin: Any = staticmethod(torch.asin)
    atan: Any = staticmethod(torch.atan)
    acosh: Any = staticmethod(torch.acosh)
    asinh: Any = staticmethod(torch.asinh)
    atanh: Any = staticmethod(torch.atanh)
    deg2rad: Any = staticmethod(torch.deg2rad)
    rad2deg: Any = staticmethod(torch.rad2deg)
    is_nan: Any = staticmethod(torch.isnan)
    is_inf: Any = staticmethod(torch.isinf)
    is_finite: Any = staticmethod(torch.isfinite)
    powf: Any = staticmethod(torch.pow)
    fmod: Any = staticmethod(torch.fmod)
    atan2: Any = staticmethod(torch.atan2)
    hypot: Any = staticmethod(torch.hypot)
    is_close: Any = staticmethod(torch.isclose)
    all_close: Any = staticmethod(torch.allclose)

    @staticmethod
    def rdiv(tensor: Tensor, scalar: float, /) -> Tensor:
        return torch.reciprocal(tensor) * scalar

    @staticmethod
    def contains_nan(tensor: Tensor, /) -> Tensor:
        return torch.isnan(tensor).any().reshape(1)
