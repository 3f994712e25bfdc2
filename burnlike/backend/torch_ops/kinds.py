"""The tables of the three kinds, in torch."""

from typing import Any

import torch
from torch import Tensor

from .basic import TorchBasicOps
from .bool_ops import TorchLogicOps
from .creation import countable
from .float_math import TorchFloatMathOps
from .int_math import TorchIntMathOps
from .ordered import TorchOrderedOps
from .quantization import TorchQuantizationOps
from .reductions import TorchIntReductionOps
from .stats import TorchStatsOps


class TorchFloatOps(TorchOrderedOps, TorchStatsOps, TorchFloatMathOps, TorchQuantizationOps):
    """Implements `FloatOps`."""

    detach: Any = staticmethod(Tensor.detach)


class TorchIntOps(TorchIntMathOps, TorchIntReductionOps, TorchOrderedOps):
    """Implements `IntOps`: results keep the operands' dtype, where torch would promote to int64 or float."""

    @staticmethod
    def arange(start: int, end: int, step: int, dtype: torch.dtype, device: torch.device, /) -> Tensor:
        return torch.arange(start, end, step, dtype=countable(dtype), device=device).to(dtype)


class TorchBoolOps(TorchBasicOps, TorchLogicOps):
    """Implements `BoolOps`."""
