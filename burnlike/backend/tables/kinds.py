"""The tables of the three kinds."""

from typing import Protocol

import torch
from torch import Tensor

from .basic import BasicOps
from .bool_ops import LogicOps
from .float_math import FloatMathOps
from .int_math import IntMathOps
from .ordered import OrderedOps
from .quantization import QuantizationOps
from .stats import StatsOps


class FloatOps(OrderedOps, StatsOps, FloatMathOps, QuantizationOps, Protocol):
    """Functions of Float tensors."""

    def detach(self, tensor: Tensor, /) -> Tensor:
        """The same values and storage without their history."""
        ...


class IntOps(OrderedOps, IntMathOps, Protocol):
    """Functions of Int tensors."""

    def arange(self, start: int, end: int, step: int, dtype: torch.dtype, device: torch.device, /) -> Tensor:
        """start, start + step, ... below `end`; step > 0; `[n]`."""
        ...


class BoolOps(BasicOps, LogicOps, Protocol):
    """Functions of Bool tensors."""
