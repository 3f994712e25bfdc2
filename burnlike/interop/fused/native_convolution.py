"""Ways to compute a convolution of images that are faster than oneDNN's in channels_last.

    in groups                     one native op (`ops.grouped_convolution`)
    1 x 1                         a product with the rows of the image
    3 x 3                         tiles (`ops.convolution_3x3`), which have fewer products
    weights larger than images    a product with rows of the values that each result sees; oneDNN copies the weight

In bfloat16, whose products oneDNN forms faster, tiles may compute the gradient of a weight alone.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ... import ops
from ..._torch_compat import onednn
from ..._torch_compat.transforms import is_batched_by_autograd
from ...ops import half_products
from ...ops._library import op
from ...ops.convolution_3x3 import CHANNELS
from ...ops.grouped_convolution import DTYPES, FEWEST_CHANNELS, is_group
from .image_layouts import channels_last, images_of, own_images_of, rows_of, stock_layout

# Bounds measured on an AMD EPYC (Zen 5, 2 cores).
_VALUES_PER_WEIGHT = 2  # of an image, at most, for a product of 1 x 1
_WEIGHTS_PER_VALUE = 3  # more than so many of an image, for a product of a larger kernel
_CHANNELS_PER_PIXEL = 4  # at most, for tiles
_FEWEST_CHANNELS_OF_HALF = 32  # for tiles in bfloat16
_PIXELS_PER_CHANNEL = 16  # at least, for all passes by tiles in bfloat16
_WITHOUT_VECTORS = (None, "default")  # instruction sets on which oneDNN is faster
# Many more products of bfloat16 than of float32; taken to be there where torch can't tell.
_HAS_AMX = onednn.has_amx(torch.bfloat16) is not False
_tiles, _tiles_backward = op("convolution_3x3"), op("convolution_3x3_backward")

Way = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""A function of an image in channels_last, the weight and the bias."""


def are_native_groups(groups: int, weight_size: torch.Size, dtype: torch.dtype | None, isa: str | None) -> bool:
    """True for a convolution in groups that `ops.grouped_convolution` computes faster than oneDNN."""
    channels, group = weight_size[:2]
    fits = groups * group == channels >= FEWEST_CHANNELS and is_group(group)
    return fits and dtype in DTYPES and isa not in _WITHOUT_VECTORS


def options_of(module: Any) -> tuple[Any, ...] | None:
    """Stride, padding, dilation and groups; None where one was set later in another form, which torch takes, too."""
    options, dims = (module.stride, module.padding, module.dilation), module.weight.dim() - 2
    are_usual = all(isinstance(it, str) or (isinstance(it, tuple) and len(it) == dims) for it in options)
    return (*options, module.groups) if are_usual else None


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
        options: see `options_of`.
        isa: `cpu_isa()`.
    """
    (_, channels_in, *kernel), (stride, padding, dilation, groups) = weight_size, options
    if size[1] != channels_in * groups:
        return None  # torch refuses it
    border = _border(padding, kernel)
    fits = border is not None and all(size[2 + dim] + 2 * border >= kernel[dim] for dim in (0, 1))
    is_large = weight_size.numel() > _WEIGHTS_PER_VALUE * size.numel()
    is_unsafe = half_products.is_unsafe(kernel, stride)
    in_stock_layout = partial(_in_stock_layout, options)
    if border is None or not fits or dilation != (1, 1) or dtype is None or size.numel() == 0:
        return in_stock_layout if is_unsafe or (is_large and groups == 1 and kernel != [1, 1]) else None
    if groups > 1:
        is_native = len({*stride}) == 1 and are_native_groups(groups, weight_size, dtype, isa)
        return partial(_in_groups, stride[0], border) if is_native else in_stock_layout if is_unsafe else None
    if kernel == [1, 1]:
        is_product = is_unsafe or weight_size.numel() * _VALUES_PER_WEIGHT >= size.numel()
        return partial(_by_product, stride, border) if is_product else None
    is_3x3 = isa not in _WITHOUT_VECTORS and (*kernel, *stride, border) == (3, 3, 1, 1, 1)
    if is_3x3 and _has_tiles(size, weight_size, dtype, isa):
        return _TiledConvolution.apply
    return partial(_by_product, stride, border) if is_large else None


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
    convolution = F.conv2d if isinstance(options[1], str) else ops.convolution
    return channels_last(convolution(stock_layout(x), weight, bias, *options))


def _has_tiles(size: torch.Size, weight_size: torch.Size, dtype: Any, isa: str | None) -> bool:
    """True if tiles of a convolution of 3 x 3 are faster, at least for the gradient of its weight."""
    channels, pixels, is_half = weight_size[:2], size[0] * size[2] * size[3], dtype == torch.bfloat16
    if dtype != torch.float32 and not (is_half and isa == "avx512_bf16" and not _HAS_AMX):
        return False
    fits = not any(count % CHANNELS for count in channels) and pixels * _CHANNELS_PER_PIXEL >= max(channels)
    return fits and (not is_half or min(channels) >= _FEWEST_CHANNELS_OF_HALF)


class _TiledConvolution(torch.autograd.Function):
    """A convolution of 3 x 3 with a border of one, in tiles: all of it, or the gradient of its weight alone."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        pixels, largest = x.numel() // x.shape[1], max(weight.shape[:2])
        is_half_faster = bias is None and pixels >= _PIXELS_PER_CHANNEL * largest
        ctx.in_all_passes = x.dtype == torch.float32 or is_half_faster
        is_large = weight.numel() > _WEIGHTS_PER_VALUE * x.numel()
        ctx.layout, ctx.has_bias = torch.contiguous_format if is_large else torch.channels_last, bias is not None
        ctx.save_for_backward(x, weight)
        if ctx.in_all_passes:
            rows = _tiles(rows_of(x), weight, False)
            return own_images_of(rows if bias is None else rows.add_(bias))
        result = F.conv2d(x.contiguous(memory_format=ctx.layout), weight, bias, 1, 1)
        return result.contiguous(memory_format=torch.channels_last)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight = ctx.saved_tensors
        options = (weight.shape[:1], [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
        if is_batched_by_autograd(grad):
            needed = [*ctx.needs_input_grad[:2], ctx.has_bias]
            return torch.ops.aten.convolution_backward(grad, x, weight, *options, needed)
        grad, grad_x, grad_weight = grad.contiguous(memory_format=torch.channels_last), None, None
        if ctx.needs_input_grad[0] and ctx.in_all_passes:
            grad_x = images_of(_tiles(rows_of(grad), weight, True))
        elif ctx.needs_input_grad[0]:
            sides = [side.contiguous(memory_format=ctx.layout) for side in (grad, x)]
            grad_x = torch.ops.aten.convolution_backward(*sides, weight, *options, [True, False, False])[0]
            grad_x = grad_x.contiguous(memory_format=torch.channels_last)
        if ctx.needs_input_grad[1]:
            grad_weight = _tiles_backward(rows_of(grad), rows_of(x))
        return grad_x, grad_weight, grad.sum((0, 2, 3)) if ctx.has_bias else None
