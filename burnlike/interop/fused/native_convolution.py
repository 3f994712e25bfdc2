"""Ways to compute a convolution of images that are faster than oneDNN's in channels_last.

    in groups                     one native op (`ops.grouped_convolution`)
    1 x 1                         a product with the rows of the image
    3 x 3                         tiles (`ops.convolution_3x3`), which have fewer products, in float32
    weights larger than images    a product with rows of the values that each result sees; oneDNN copies the weight

In bfloat16 the gradient of a weight alone may be of tiles, with the other passes by oneDNN.
"""

from collections.abc import Callable
from functools import lru_cache, partial
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
_FEWEST_CHANNELS_OF_HALF, _PIXELS_PER_CHANNEL = 32, 16
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
    if not all(isinstance(it, tuple) and len(it) == 2 for it in (stride, dilation, padding) if not isinstance(it, str)):
        return None  # numbers that were set later, which torch takes, and what it refuses
    border, is_vectorized = _border(padding, kernel), isa not in (None, "default")
    fits = border is not None and all(size[2 + dim] + 2 * border >= kernel[dim] for dim in (0, 1))
    is_plain = fits and dilation == (1, 1) and dtype is not None and size.numel() > 0
    if groups > 1:
        is_native = is_plain and dtype in DTYPES and is_vectorized and len({*stride}) == 1
        is_native = is_native and size[1] == channels and _are_groups(groups, weight_size)
        return partial(_in_groups, stride[0], border) if is_native else None
    if kernel == [1, 1] or size[1] != channels_in:
        is_product = is_plain and size[1] == channels_in and weight_size.numel() * _VALUES_PER_WEIGHT >= size.numel()
        return partial(_by_product, stride, border) if is_product else None
    is_3x3 = is_plain and is_vectorized and (*kernel, *stride, border) == (3, 3, 1, 1, 1)
    if is_3x3 and _has_tiles(size, weight_size, dtype, isa):
        return _in_tiles
    if weight_size.numel() <= _WEIGHTS_PER_VALUE * size.numel():
        return None
    return partial(_by_product, stride, border) if is_plain else partial(_in_stock_layout, options)


def _border(padding: Any, kernel: list[int]) -> int | None:
    """The zeros on each side of an image; None where they differ."""
    if padding == "valid":
        return 0
    if padding == "same":
        return kernel[0] // 2 if kernel[0] == kernel[1] and kernel[0] % 2 else None
    return padding[0] if padding[0] == padding[1] >= 0 else None


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


def _has_tiles(size: torch.Size, weight_size: torch.Size, dtype: Any, isa: str | None) -> bool:
    """True if tiles of a convolution of 3 x 3 are faster, at least for the gradient of its weight."""
    channels, pixels, is_half = weight_size[:2], size[0] * size[2] * size[3], dtype == torch.bfloat16
    if dtype != torch.float32 and not (is_half and isa == "avx512_bf16" and not _HAS_AMX):
        return False
    fits = not any(count % CHANNELS for count in channels) and pixels * _CHANNELS_PER_PIXEL >= max(channels)
    return fits and (not is_half or min(channels) >= _FEWEST_CHANNELS_OF_HALF)


def _in_tiles(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    pixels, largest = x.numel() // x.shape[1], max(weight.shape[:2])
    in_all_passes = x.dtype is torch.float32 or (bias is None and pixels >= _PIXELS_PER_CHANNEL * largest)
    return _TiledConvolution.apply(x, weight, bias, in_all_passes)


class _TiledConvolution(torch.autograd.Function):
    """A convolution of 3 x 3 with a border of one, in tiles: all of it, or the gradient of its weight alone."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, *arguments: Any) -> Tensor:
        bias, ctx.in_all_passes = arguments
        is_large = weight.numel() > _WEIGHTS_PER_VALUE * x.numel()
        ctx.layout, ctx.has_bias = torch.contiguous_format if is_large else torch.channels_last, bias is not None
        ctx.save_for_backward(x, weight)
        if ctx.in_all_passes:
            rows = _tiles(rows_of(x), weight, False)
            return images_of(rows if bias is None else rows.add_(bias))
        result = F.conv2d(x.contiguous(memory_format=ctx.layout), weight, bias, 1, 1)
        return result.contiguous(memory_format=torch.channels_last)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight = ctx.saved_tensors
        grad, grad_x, grad_weight = grad.contiguous(memory_format=torch.channels_last), None, None
        if ctx.needs_input_grad[0] and ctx.in_all_passes:
            grad_x = images_of(_tiles(rows_of(grad), weight, True))
        elif ctx.needs_input_grad[0]:
            sides = [side.contiguous(memory_format=ctx.layout) for side in (grad, x)]
            options = (None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, False, False])
            grad_x = torch.ops.aten.convolution_backward(*sides, weight, *options)[0]
            grad_x = grad_x.contiguous(memory_format=torch.channels_last)
        if ctx.needs_input_grad[1]:
            grad_weight = _tiles_backward(rows_of(grad), rows_of(x))
        return grad_x, grad_weight, grad.sum((0, 2, 3)) if ctx.has_bias else None, None
