"""Convolutions of images by a way that is faster than oneDNN's, for each pass.

Tiles (`ops.convolution_3x3`) have fewer products, in float32. In bfloat16 the gradient of a weight that is large beside
the results is one product of matrices.
"""

from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...ops._library import cpu_isa, op
from ...ops.convolution_3x3 import CHANNELS
from .lazy_norm import rows_of

WEIGHTS_PER_VALUE = 3
"""Of an image, from which on oneDNN takes less time in the contiguous layout."""
# Measured on an AMD EPYC (Zen 5, 2 cores). The last are values of a weight for each result.
_CHANNELS_PER_PIXEL, _FEWEST_CHANNELS, _PIXELS_PER_CHANNEL, _FEWEST_OF_PRODUCT = 4, 32, 16, 2
# Many more products of bfloat16 than of float32; asked of torch, of which older ones do not say it.
_HAS_AMX = bool(getattr(torch.cpu, "get_capabilities", dict)().get("amx_bf16", True))
_tiles, _tiles_backward = op("convolution_3x3"), op("convolution_3x3_backward")


def native_convolution(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any) -> Tensor | None:
    """`F.conv2d` of an image in channels_last, without groups and dilation; None where all of it is oneDNN's.

    By the instruction set and sizes alone, so that the bits are the same in each run.
    """
    channels, channels_in, *kernel = weight.shape
    is_half, pixels, largest = x.dtype is torch.bfloat16, x.numel() // channels_in, max(channels, channels_in)
    if pixels == 0 or (x.dtype is not torch.float32 and not (is_half and cpu_isa() == "avx512_bf16" and not _HAS_AMX)):
        return None
    is_tiled = (*kernel, *stride, padding) == (3, 3, 1, 1, 1) and channels % CHANNELS == channels_in % CHANNELS == 0
    is_tiled = is_tiled and pixels * _CHANNELS_PER_PIXEL >= largest
    is_tiled = is_tiled and (not is_half or min(channels, channels_in) >= _FEWEST_CHANNELS)
    down, right = ((x.shape[2 + it] + 2 * padding - kernel[it]) // stride[it] + 1 for it in (0, 1))
    is_product = is_half and weight.numel() >= _FEWEST_OF_PRODUCT * len(x) * channels * down * right
    if not is_tiled and not is_product:
        return None
    has_more_tiles = is_tiled and (not is_half or (bias is None and pixels >= _PIXELS_PER_CHANNEL * largest))
    return _Convolution.apply(x, weight, bias, stride, padding, is_tiled, has_more_tiles)


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, *arguments: Any) -> Tensor:
        bias, *ctx.options, ctx.is_tiled, ctx.has_more_tiles = arguments
        is_large = weight.numel() > WEIGHTS_PER_VALUE * x.numel()
        ctx.layout, ctx.has_bias = torch.contiguous_format if is_large else torch.channels_last, bias is not None
        ctx.save_for_backward(x, weight)
        if ctx.has_more_tiles:
            rows = _tiles(rows_of(x), weight, False)
            return (rows if bias is None else rows.add_(bias)).permute(0, 3, 1, 2)
        result = F.conv2d(x.contiguous(memory_format=ctx.layout), weight, bias, *ctx.options)
        return result.contiguous(memory_format=torch.channels_last)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (x, weight), (stride, padding) = ctx.saved_tensors, ctx.options
        grad, grad_x, grad_weight = grad.contiguous(memory_format=torch.channels_last), None, None
        if ctx.needs_input_grad[0] and ctx.has_more_tiles:
            grad_x = _tiles(rows_of(grad), weight, True).permute(0, 3, 1, 2)
        elif ctx.needs_input_grad[0]:
            sides = [it.contiguous(memory_format=ctx.layout) for it in (grad, x)]
            options = (None, stride, [padding] * 2, [1, 1], False, [0, 0], 1, [True, False, False])
            grad_x = torch.ops.aten.convolution_backward(*sides, weight, *options)[0]
            grad_x = grad_x.contiguous(memory_format=torch.channels_last)
        if ctx.needs_input_grad[1]:
            grad_weight = _tiles_backward(rows_of(grad), rows_of(x)) if ctx.is_tiled else _product(grad, x, weight, ctx)
        return grad_x, grad_weight, grad.sum((0, 2, 3)) if ctx.has_bias else None, *(None,) * 4


def _product(grad: Tensor, x: Tensor, weight: Tensor, ctx: Any) -> Tensor:
    (down, right), rows = ctx.options[0], rows_of(F.pad(x, (ctx.options[1],) * 4))
    high, wide = grad.shape[2] * down, grad.shape[3] * right
    taps = [rows[:, i : i + high : down, j : j + wide : right] for i, j in product(*map(range, weight.shape[2:]))]
    factors = torch.stack(taps, -1)
    return (rows_of(grad).flatten(0, 2).mT @ factors.flatten(3).flatten(0, 2)).view_as(weight)
