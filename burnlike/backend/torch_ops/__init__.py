"""The tables in terms of torch, for any device that torch runs on."""

from typing import Any

import torch
from torch import Tensor

from .arithmetic import (
    TorchArithmeticOps,
    TorchComparisonOps,
    TorchFloatMathOps,
    TorchInequalityOps,
    TorchIntMathOps,
    TorchLogicOps,
)
from .conv import TorchConvOps, TorchPoolOps
from .creation import TorchCreationOps, TorchNumericCreationOps, countable
from .layers import TorchActivationOps, TorchLayerOps, TorchQuantizationOps
from .linalg import TorchLinalgOps
from .reductions import TorchExtremeOps, TorchIntReductionOps, TorchReductionOps, TorchSortOps, TorchStatsOps
from .shape import TorchIndexOps, TorchNumericIndexOps, TorchPaddingOps, TorchShapeOps
from .signal import TorchGridOps, TorchSignalOps

__all__ = ["TorchActivationOps", "TorchBoolOps", "TorchFloatOps", "TorchIntOps", "TorchModuleOps"]


class TorchBasicOps(TorchCreationOps, TorchShapeOps, TorchIndexOps, TorchComparisonOps):
    """Implements `BasicOps`."""


class TorchNumericOps(
    TorchBasicOps,
    TorchNumericCreationOps,
    TorchPaddingOps,
    TorchArithmeticOps,
    TorchReductionOps,
    TorchExtremeOps,
    TorchSortOps,
    TorchInequalityOps,
    TorchNumericIndexOps,
):
    """Implements `NumericOps` for Float; `TorchIntOps` replaces what torch promotes."""


class TorchFloatOps(TorchNumericOps, TorchStatsOps, TorchFloatMathOps, TorchQuantizationOps):
    """Implements `FloatOps`."""

    detach: Any = staticmethod(Tensor.detach)


class TorchIntOps(TorchIntMathOps, TorchIntReductionOps, TorchNumericOps):
    """Implements `IntOps`: results keep the operands' dtype, where torch would promote to int64 or float."""

    @staticmethod
    def arange(start: int, end: int, step: int, dtype: torch.dtype, device: torch.device, /) -> Tensor:
        return torch.arange(start, end, step, dtype=countable(dtype), device=device).to(dtype)


class TorchBoolOps(TorchBasicOps, TorchLogicOps):
    """Implements `BoolOps`."""


class TorchModuleOps(TorchConvOps, TorchPoolOps, TorchLayerOps, TorchLinalgOps, TorchSignalOps, TorchGridOps):
    """Implements `ModuleOps`."""
