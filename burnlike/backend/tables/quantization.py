"""Symmetric quantization."""

# pyright: reportReturnType=false

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor


class QuantizationOps(Protocol):
    """Symmetric quantization of Float tensors.

    `block` has one number per dimension, how many elements share a scale there; None where one scale is for all.
    Scales are `[1]`, or `[size // block, ..]`.
    """

    def quantization_scales(
        self, tensor: Tensor, block: Sequence[int] | None, steps: int, dtype: torch.dtype, /
    ) -> Tensor:
        """2 * max|x| / steps of each block; 0.1 for a block of zeros."""

    def quantize(self, tensor: Tensor, scales: Tensor, block: Sequence[int] | None, low: int, high: int, /) -> Tensor:
        """x / scale rounded, within low .. high, as int8."""

    def dequantize(self, values: Tensor, scales: Tensor, block: Sequence[int] | None, dtype: torch.dtype, /) -> Tensor:
        """Value * scale, calculated in the scales' dtype."""
