"""Convolutions of images in bfloat16, of which each pass takes the fastest of three ways.

oneDNN copies a weight for each pass, and takes long for its gradient. Tiles (`ops.convolution_3x3`) have fewer products,
in float32; the gradient of a weight that is large beside the results is one product of matrices.
"""

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...ops._library import cpu_isa, op
from ...ops.convolution_3x3 import CHANNELS
from .lazy_norm import rows_of

_tiles, _tiles_backward = op("convolution_3x3"), op("convolution_3x3_backward")
_FEWEST_CHANNELS, _PIXELS_PER_CHANNEL = 32, 16
"""Of tiles, measured on an AMD EPYC (Zen 5, 2 cores): channels, and pixels for each in results and images' gradients."""
_WEIGHTS_PER_RESULT, _MOST_OF_TILES = 2, 16
"""Values of a weight for each result: from the first on its gradient is a product, from the second also of tiles."""
_WEIGHTS_PER_VALUE = 3
"""Values of a weight for each of its image, from which on oneDNN reads both faster in the contiguous layout."""


@cache
def _has_amx() -> bool:
    """True where a CPU has many more products of bfloat16 than of float32, or where this torch does not say it."""
    return bool(getattr(torch.cpu, "get_capabilities", dict)().get("amx_bf16", True))


def half_convolution(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: int) -> Tensor | None:
    """`F.conv2d` of an image in channels_last, without groups and dilation; None where all of it is oneDNN's.

    By the instruction set and sizes alone, so that the bits are the same in each run.
    """
    if cpu_isa() != "avx512_bf16" or _has_amx():
        return None
    channels, channels_in, *kernel = weight.shape
    sizes = [(size + 2 * padding - of) // by + 1 for size, of, by in zip(x.shape[2:], kernel, stride, strict=True)]
    per_result = weight.numel() / max(len(x) * channels * sizes[0] * sizes[1], 1)
    is_tiled = kernel == [3, 3] and (*stride, padding) == (1, 1, 1) and not (channels % CHANNELS or channels_in % CHANNELS)
    is_tiled = is_tiled and min(channels, channels_in) >= _FEWEST_CHANNELS and per_result < _MOST_OF_TILES
    if min(sizes) < 1 or not (is_tiled or per_result >= _WEIGHTS_PER_RESULT):
        return None
    return _HalfConvolution.apply(x, weight, bias, stride, padding, is_tiled)


class _HalfConvolution(torch.autograd.Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: int, is_tiled: bool
    ) -> Tensor:
        pixels = x.numel() // x.shape[1]
        in_few_tiles = is_tiled and pixels >= _PIXELS_PER_CHANNEL * max(weight.shape[:2])
        ctx.options, ctx.ways, ctx.has_bias = (stride, padding), (is_tiled, in_few_tiles), bias is not None
        ctx.save_for_backward(x, weight)
        if in_few_tiles and bias is None:
            return _tiles(rows_of(x), weight, False).permute(0, 3, 1, 2)
        result = F.conv2d(_read_faster(x, weight), weight, bias, *ctx.options)
        return result.contiguous(memory_format=torch.channels_last)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (x, weight), (stride, padding), (is_tiled, in_few_tiles) = ctx.saved_tensors, ctx.options, ctx.ways
        grad, grad_x, grad_weight = grad.contiguous(memory_format=torch.channels_last), None, None
        if ctx.needs_input_grad[0] and in_few_tiles:
            grad_x = _tiles(rows_of(grad), weight, True).permute(0, 3, 1, 2)
        elif ctx.needs_input_grad[0]:
            tensors = (grad if x.numel() * _WEIGHTS_PER_VALUE >= weight.numel() else grad.contiguous(), _read_faster(x, weight))
            options = (stride, (padding, padding), (1, 1), False, (0, 0), 1, (True, False, False))
            grad_x = torch.ops.aten.convolution_backward(*tensors, weight, None, *options)[0]
            grad_x = grad_x.contiguous(memory_format=torch.channels_last)
        if ctx.needs_input_grad[1] and is_tiled:
            grad_weight = _tiles_backward(rows_of(grad), rows_of(x))
        elif ctx.needs_input_grad[1]:
            grad_weight = _product(grad, x, weight, stride, padding)
        return grad_x, grad_weight, grad.sum((0, 2, 3)) if ctx.has_bias else None, None, None, None


def _read_faster(x: Tensor, weight: Tensor) -> Tensor:
    return x.contiguous() if weight.numel() > _WEIGHTS_PER_VALUE * x.numel() else x


def _product(grad: Tensor, x: Tensor, weight: Tensor, stride: Any, padding: int) -> Tensor:
    """The gradient of a weight as a product with the values that each of its numbers was multiplied with."""
    (down, right), rows = weight.shape[2:], rows_of(F.pad(x, (padding,) * 4))
    height, width = (size * by for size, by in zip(grad.shape[2:], stride, strict=True))
    taps = [rows[:, i : i + height : stride[0], j : j + width : stride[1]] for i in range(down) for j in range(right)]
    factors = torch.stack(taps, -1).flatten(3).flatten(0, 2)
    return (rows_of(grad).flatten(0, 2).mT @ factors).view_as(weight)
