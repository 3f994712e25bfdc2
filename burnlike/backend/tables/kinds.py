"""The tables as wholes: what Float, Int and Bool tensors have, and the functions of layers."""

# pyright: reportReturnType=false

from typing import Protocol

import torch
from torch import Tensor

from .arithmetic import ArithmeticOps, FloatMathOps, IntMathOps
from .comparison import ComparisonOps, InequalityOps, LogicOps
from .conv import ConvOps
from .creation import CreationOps, NumericCreationOps
from .grid import GridOps
from .indexing import IndexOps, NumericIndexOps
from .layers import LayerOps
from .linalg import LinalgOps
from .pool import PoolOps
from .quantization import QuantizationOps
from .reductions import ExtremeOps, ReductionOps, StatsOps
from .shape import PaddingOps, ShapeOps
from .signal import SignalOps
from .sorting import SortOps


class BasicOps(CreationOps, ShapeOps, IndexOps, ComparisonOps, Protocol):
    """Functions that Float, Int and Bool tensors share."""


class NumericOps(
    BasicOps,
    NumericCreationOps,
    PaddingOps,
    ArithmeticOps,
    ReductionOps,
    ExtremeOps,
    SortOps,
    InequalityOps,
    NumericIndexOps,
    Protocol,
):
    """Functions that Float and Int tensors share."""


class FloatOps(NumericOps, StatsOps, FloatMathOps, QuantizationOps, Protocol):
    """Functions of Float tensors."""

    def detach(self, tensor: Tensor, /) -> Tensor:
        """The same values and storage without their history."""


class IntOps(NumericOps, IntMathOps, Protocol):
    """Functions of Int tensors."""

    def arange(self, start: int, end: int, step: int, dtype: torch.dtype, device: torch.device, /) -> Tensor:
        """start, start + step, ... below `end`; step > 0; `[n]`."""


class BoolOps(BasicOps, LogicOps, Protocol):
    """Functions of Bool tensors."""


class ModuleOps(ConvOps, PoolOps, LayerOps, LinalgOps, SignalOps, GridOps, Protocol):
    """Convolutions, pools, attention and what else layers are made of, on Float tensors."""
