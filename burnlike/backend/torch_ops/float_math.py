"""`FloatMathOps`, in torch."""

import torch
from torch import Tensor


class TorchFloatMathOps:
    """Implements `FloatMathOps`."""

    exp = staticmethod(torch.exp)
    log = staticmethod(torch.log)
    log1p = staticmethod(torch.log1p)
    sqrt = staticmethod(torch.sqrt)
    recip = staticmethod(torch.reciprocal)
    erf = staticmethod(torch.erf)
    round = staticmethod(torch.round)
    floor = staticmethod(torch.floor)
    ceil = staticmethod(torch.ceil)
    trunc = staticmethod(torch.trunc)
    cos = staticmethod(torch.cos)
    sin = staticmethod(torch.sin)
    tan = staticmethod(torch.tan)
    cosh = staticmethod(torch.cosh)
    sinh = staticmethod(torch.sinh)
    tanh = staticmethod(torch.tanh)
    acos = staticmethod(torch.acos)
    asin = staticmethod(torch.asin)
    atan = staticmethod(torch.atan)
    acosh = staticmethod(torch.acosh)
    asinh = staticmethod(torch.asinh)
    atanh = staticmethod(torch.atanh)
    deg2rad = staticmethod(torch.deg2rad)
    rad2deg = staticmethod(torch.rad2deg)
    is_nan = staticmethod(torch.isnan)
    is_inf = staticmethod(torch.isinf)
    is_finite = staticmethod(torch.isfinite)
    powf = staticmethod(torch.pow)
    fmod = staticmethod(torch.fmod)
    atan2 = staticmethod(torch.atan2)
    hypot = staticmethod(torch.hypot)
    is_close = staticmethod(torch.isclose)
    all_close = staticmethod(torch.allclose)

    @staticmethod
    def rdiv(tensor: Tensor, scalar: float, /) -> Tensor:
        return torch.reciprocal(tensor) * scalar

    @staticmethod
    def contains_nan(tensor: Tensor, /) -> Tensor:
        return torch.isnan(tensor).any().reshape(1)
