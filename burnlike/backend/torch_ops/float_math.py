"""`FloatMathOps`, in torch."""

from typing import Any

import torch
from torch import Tensor


class TorchFloatMathOps:
    """Implements `FloatMathOps`."""

    exp: Any = staticmethod(Tensor.exp)
    log: Any = staticmethod(Tensor.log)
    log1p: Any = staticmethod(Tensor.log1p)
    sqrt: Any = staticmethod(Tensor.sqrt)
    recip: Any = staticmethod(Tensor.reciprocal)
    erf: Any = staticmethod(Tensor.erf)
    round: Any = staticmethod(Tensor.round)
    floor: Any = staticmethod(Tensor.floor)
    ceil: Any = staticmethod(Tensor.ceil)
    trunc: Any = staticmethod(Tensor.trunc)
    cos: Any = staticmethod(Tensor.cos)
    sin: Any = staticmethod(Tensor.sin)
    tan: Any = staticmethod(Tensor.tan)
    cosh: Any = staticmethod(Tensor.cosh)
    sinh: Any = staticmethod(Tensor.sinh)
    tanh: Any = staticmethod(Tensor.tanh)
    acos: Any = staticmethod(Tensor.acos)
    asin: Any = staticmethod(Tensor.asin)
    atan: Any = staticmethod(Tensor.atan)
    acosh: Any = staticmethod(Tensor.acosh)
    asinh: Any = staticmethod(Tensor.asinh)
    atanh: Any = staticmethod(Tensor.atanh)
    deg2rad: Any = staticmethod(Tensor.deg2rad)
    rad2deg: Any = staticmethod(Tensor.rad2deg)
    is_nan: Any = staticmethod(Tensor.isnan)
    is_inf: Any = staticmethod(Tensor.isinf)
    is_finite: Any = staticmethod(Tensor.isfinite)
    powf: Any = staticmethod(Tensor.pow)
    fmod: Any = staticmethod(Tensor.fmod)
    atan2: Any = staticmethod(Tensor.atan2)
    hypot: Any = staticmethod(Tensor.hypot)
    is_close: Any = staticmethod(Tensor.isclose)
    all_close: Any = staticmethod(Tensor.allclose)

    @staticmethod
    def rdiv(tensor: Tensor, scalar: float, /) -> Tensor:
        return torch.reciprocal(tensor) * scalar

    @staticmethod
    def contains_nan(tensor: Tensor, /) -> Tensor:
        return torch.isnan(tensor).any().reshape(1)
