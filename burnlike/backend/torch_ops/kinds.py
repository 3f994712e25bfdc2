"""The tables as wholes, in torch."""

from typing import Any

import torch
from torch import Tensor

from .arithmetic import TorchArithmeticOps, TorchFloatMathOps, TorchIntMathOps
from .comparison import TorchComparisonOps, TorchInequalityOps, TorchLogicOps
from .conv import TorchConvOps
from .creation import TorchCreationOps, TorchNumericCreationOps, countable
from .grid import TorchGridOps
from .indexing import TorchIndexOps, TorchNumericIndexOps
from .layers import TorchLayerOps
from .linalg import TorchLinalgOps
from .pool import TorchPoolOps
from .quantization import TorchQuantizationOps
from .reductions import TorchExtremeOps, TorchIntReductionOps, TorchReductionOps, TorchStatsOps
from .shape import TorchPaddingOps, TorchShapeOps
from .signal import TorchSignalOps
from .sorting import TorchSortOps


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
