"""`QuantizationOps`, in torch."""

from collections.abc import Sequence

import torch
from torch import Tensor


class TorchQuantizationOps:
    """Implements `QuantizationOps`."""

    @staticmethod
    def quantization_scales(tensor: Tensor, block: Sequence[int] | None, steps: int, dtype: torch.dtype, /) -> Tensor:
        magnitude = tensor.detach().to(dtype).abs()
        if block is None:
            largest = magnitude.amax().reshape(1)
        else:
            largest = _blocks(magnitude, block).amax(list(range(1, 2 * len(block), 2)))
        scales = largest * 2 / steps
        return torch.where(scales == 0, 0.1, scales)

    @staticmethod
    def quantize(tensor: Tensor, scales: Tensor, block: Sequence[int] | None, low: int, high: int, /) -> Tensor:
        scaled = tensor.detach().to(scales.dtype) / _spread(scales, block, tensor.shape)
        return scaled.round().clamp(low, high).to(torch.int8)

    @staticmethod
    def dequantize(values: Tensor, scales: Tensor, block: Sequence[int] | None, dtype: torch.dtype, /) -> Tensor:
        return (values * _spread(scales, block, values.shape)).to(dtype)


def _blocks(tensor: Tensor, block: Sequence[int]) -> Tensor:
    """`[n, ..] -> [n // block, block, ..]`."""
    return tensor.reshape(
        [part for size, each in zip(tensor.shape, block, strict=True) for part in (size // each, each)]
    )


def _spread(scales: Tensor, block: Sequence[int] | None, shape: Sequence[int]) -> Tensor:
    """The scale of each element, in a shape that broadcasts against `shape`."""
    if block is None:
        return scales.reshape([1] * len(shape))
    parts = [size // each for size, each in zip(shape, block, strict=True)]
    wide = scales.reshape([size for part in parts for size in (part, 1)])
    return wide.expand([size for pair in zip(parts, block, strict=True) for size in pair]).reshape(list(shape))
