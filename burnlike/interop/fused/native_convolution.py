"""Ways to compute a convolution of images that are faster than oneDNN's in channels_last.

    in groups                     one native op (`ops.grouped_convolution`)
    1 x 1                         a product with the rows of the image
    3 x 3                         tiles (`ops.convolution_3x3`), which have fewer products, in float32
    weights larger than images    a product with rows of the values that each result sees; oneDNN copies the weight

In bfloat16 each pass of a convolution takes the faster of tiles, a product and oneDNN's way.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ... import ops
from ...ops._library import cpu_isa, op
from ...ops.convolution_3x3 import CHANNELS
from ...ops.grouped_convolution import DTYPES, FEWEST_CHANNELS, is_group
from .image_layouts import channels_last, images_of, rows_of, stock_layout

# Measured on an AMD EPYC (Zen 5, 2 cores).
_VALUES_PER_WEIGHT, _WEIGHTS_PER_VALUE = 2, 3
"""Of an image: up to how many a 1 x 1 convolution is a product, and from how many on a larger one is."""
_CHANNELS_PER_PIXEL = 4
"""At most, for tiles; in bfloat16 the other bounds hold as well."""
_FEWEST_CHANNELS_OF_HALF, _PIXELS_PER_CHANNEL, _WEIGHTS_PER_RESULT = 32, 16, 2
# Many more products of bfloat16 than of float32; asked of torch, of which older ones do not say it.
_HAS_AMX = bool(getattr(torch.cpu, "get_capabilities", dict)().get("amx_bf16", True))
_tiles, _tiles_backward = op("convolution_3x3"), op("convolution_3x3_backward")

Way = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""A function of an image in channels_last, the weight and the bias."""


def has_vectors() -> bool:
    return cpu_isa() not in (None, "default")


def are_native_groups(groups: int, weight: Tensor) -> bool:
    """True for a convolution in groups that `ops.grouped_convolution` computes."""
    return _are_groups(groups, weight.shape) and weight.dtype in DTYPES and has_vectors()


def _are_groups(groups: int, weight_size: torch.Size) -> bool:
    channels, group = weight_size[:2]
    return groups * group == channels >= FEWEST_CHANNELS and is_group(group)


@lru_cache(4096)  # a dozen questions for each convolution, in each call
def way_of(
    size: torch.Size, weight_size: torch.Size, dtype: torch.dtype | None, options: Any, isa: str | None
) -> Way | None:
    """The way of a convolution; None for what oneDNN computes.

    By sizes and the instruction set alone, so that the bits are the same in each run.

    Args:
        size: of the image.
        weight_size: of the weight.
        dtype: of image, weight and bias; None where they differ, or within autocast.
        options: stride, padding, dilation and groups.
        isa: `cpu_isa()`.
    """
    (channels, channels_in, *kernel), (stride, padding, dilation, groups) = weight_size, options
    border, is_vectorized = _border(padding, kernel), isa not in (None, "default")
    fits = border is not None and all(size[2 + dim] + 2 * border >= kernel[dim] for dim in (0, 1))
    is_plain = fits and dilation == (1, 1) and dtype is not None and size.numel() > 0
    if groups > 1:
        is_native = is_plain and dtype in DTYPES and is_vectorized and len({*stride}) == 1
        is_native = is_native and size[1] == channels and _are_groups(groups, weight_size)
        return partial(_in_groups, stride[0], border) if is_native else None
    if size[1] != channels_in:
        return None
    if kernel == [1, 1]:
        is_product = is_plain and weight_size.numel() * _VALUES_PER_WEIGHT >= size.numel()
        return partial(_by_product, stride, border) if is_product else None
    if is_plain and is_vectorized and (passes := _passes(size, weight_size, dtype, stride, border, isa)):
        return partial(_by_pass, stride, border, *passes)
    if weight_size.numel() <= _WEIGHTS_PER_VALUE * size.numel():
        return None
    return partial(_by_product, stride, border) if is_plain else partial(_in_stock_layout, options)


def _border(padding: Any, kernel: list[int]) -> int | None:
    """The zeros on each side of an image; None where they differ."""
    if padding == "valid":
        return 0
    if padding == "same":
        return kernel[0] // 2 if kernel[0] == kernel[1] and kernel[0] % 2 else None
    return padding[0] if len({*padding}) == 1 else None


def _in_groups(stride: int, border: int, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return images_of(ops.grouped_convolution(rows_of(x), weight, bias, stride, border))


def _by_product(stride: tuple[int, int], border: int, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A convolution as the product of its weight and rows of values."""
    rows = rows_of(x)
    if weight.shape[2:] == (1, 1) and not border:
        rows = rows[:, :: stride[0], :: stride[1]].contiguous()
    else:
        rows = F.pad(rows, (0, 0, *4 * [border]))
        for dim in (0, 1):
            rows = rows.unfold(dim + 1, weight.shape[dim + 2], stride[dim])
        rows = rows.flatten(3)
    return images_of(ops.linear(rows, weight.flatten(1), bias))


def _in_stock_layout(options: tuple[Any, ...], x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """By oneDNN in the contiguous layout, in which it reads a large weight faster.

    Of 16 x 512 x 2 x 2 by 512 x 512 x 3 x 3, both passes take 4.6 ms on an AMD EPYC (Zen 5, 2 cores), in place of 6.7.
    """
    return channels_last(F.conv2d(stock_layout(x), weight, bias, *options))


def _passes(
    size: torch.Size, weight_size: torch.Size, dtype: Any, stride: Any, border: Any, isa: str | None
) -> tuple[bool, bool] | None:
    """For float32 and bfloat16: whether gradients of weights, and the other passes, are tiles.

    None where all of it is oneDNN's, or a product.
    """
    (channels, channels_in, *kernel), pixels = weight_size, size[0] * size[2] * size[3]
    largest, is_half = max(channels, channels_in), dtype == torch.bfloat16
    if dtype != torch.float32 and not (is_half and isa == "avx512_bf16" and not _HAS_AMX):
        return None
    is_tiled = (*kernel, *stride, border) == (3, 3, 1, 1, 1) and channels % CHANNELS == channels_in % CHANNELS == 0
    is_tiled = is_tiled and pixels * _CHANNELS_PER_PIXEL >= largest
    if not is_half:
        return (True, True) if is_tiled else None
    is_tiled = is_tiled and min(channels, channels_in) >= _FEWEST_CHANNELS_OF_HALF
    down, right = ((size[2 + dim] + 2 * border - kernel[dim]) // stride[dim] + 1 for dim in (0, 1))
    is_product = weight_size.numel() >= _WEIGHTS_PER_RESULT * size[0] * channels * down * right
    return (is_tiled, is_tiled and pixels >= _PIXELS_PER_CHANNEL * largest) if is_tiled or is_product else None


def _by_pass(
    stride: tuple[int, int],
    border: int,
    is_tiled: bool,
    has_more_tiles: bool,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
) -> Tensor:
    has_more_tiles = has_more_tiles and (bias is None or x.dtype is torch.float32)
    return _Convolution.apply(x, weight, bias, stride, border, is_tiled, has_more_tiles)


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, *arguments: Any) -> Tensor:
        bias, *ctx.options, ctx.is_tiled, ctx.has_more_tiles = arguments
        is_large = weight.numel() > _WEIGHTS_PER_VALUE * x.numel()
        ctx.layout, ctx.has_bias = torch.contiguous_format if is_large else torch.channels_last, bias is not None
        ctx.save_for_backward(x, weight)
        if ctx.has_more_tiles:
            rows = _tiles(rows_of(x), weight, False)
            return images_of(rows if bias is None else rows.add_(bias))
        result = F.conv2d(x.contiguous(memory_format=ctx.layout), weight, bias, *ctx.options)
        return result.contiguous(memory_format=torch.channels_last)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (x, weight), (stride, padding) = ctx.saved_tensors, ctx.options
        grad, grad_x, grad_weight = grad.contiguous(memory_format=torch.channels_last), None, None
        if ctx.needs_input_grad[0] and ctx.has_more_tiles:
            grad_x = images_of(_tiles(rows_of(grad), weight, True))
        elif ctx.needs_input_grad[0]:
            sides = [side.contiguous(memory_format=ctx.layout) for side in (grad, x)]
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
