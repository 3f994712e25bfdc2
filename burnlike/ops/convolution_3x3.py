"""Convolutions of 3 x 3 with a border of zeros on the CPU, by fewer products than they have (Winograd 1980; Lavin &
Gray 2016, "Fast algorithms for convolutional neural networks").

Tiles of 4 x 4 results take 36 instead of 144 products for each channel, tiles of 2 x 2 take 16 instead of 36. Distances
from float64 are up to three times those of a sum of products. A value that is not finite reaches its whole tile.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..errors import ShapeError
from ._arguments import check_tensor
from ._function import call
from ._library import autograd, fake, flops, op

DTYPES = (torch.float32, torch.bfloat16)
CHANNELS = 16
"""Both numbers of channels are multiples of it."""

_convolution_3x3, _convolution_3x3_backward = op("convolution_3x3"), op("convolution_3x3_backward")


def convolution_3x3(x: Tensor, weight: Tensor, transposed: bool = False) -> Tensor:
    """`torch.nn.functional.conv2d(..., padding=1)` of images whose channels are last.

    Differentiable any number of times. Memory: beside the result and what is saved, x and the weight, four times the
    weight, and tiles of images, up to 12 MB. A thread keeps of each at most 16 MB for its next call.

    Args:
        x: `[n, h, w, channels_in]`, float32 or bfloat16, on a CPU; on other devices it is the reference.
        weight: `[channels, channels_in, 3, 3]` in x's dtype, as of `nn.Conv2d`.
        transposed: `conv_transpose2d(..., padding=1)` instead, which takes `channels` and gives `channels_in`: the
            gradient of the images.

    Returns:
        `[n, h, w, channels]`, contiguous, rounded once. The bits are the same for any number of threads.

    Raises:
        ShapeError: the channels do not fit, or are no multiples of 16.
    """
    if x.device.type not in ("cpu", "meta"):
        _check(x, weight, transposed)
        return convolution_3x3_reference(x, weight, transposed)
    return call("convolution_3x3", _convolution_3x3, convolution_3x3_reference, _check, x, weight, transposed)


def convolution_3x3_reference(x: Tensor, weight: Tensor, transposed: bool = False) -> Tensor:
    """The same as `convolution_3x3` in plain torch, on any device."""
    images = x.permute(0, 3, 1, 2)
    convolve = functional.conv_transpose2d if transposed else functional.conv2d
    return convolve(images, weight, padding=1).permute(0, 2, 3, 1).contiguous()


def _check(x: Tensor, weight: Tensor, transposed: bool) -> None:
    check_tensor("convolution_3x3", "x", x, DTYPES)
    check_tensor("convolution_3x3", "weight", weight, (x.dtype,), x.device)
    channels_in = x.shape[-1] if x.dim() == 4 else "c"
    first = 0 if transposed else 1
    fits = weight.dim() == 4 and weight.shape[2:] == (3, 3) and weight.shape[first] == channels_in
    if not fits or weight.shape[0] % CHANNELS or weight.shape[1] % CHANNELS:
        sides = f"{channels_in}, channels" if transposed else f"channels, {channels_in}"
        raise ShapeError(
            f"convolution_3x3: expected images [n, h, w, {channels_in}] and a weight [{sides}, 3, 3] with channels that"
            f" are multiples of {CHANNELS}, got {list(x.shape)} and {list(weight.shape)}; nn.functional.conv2d takes"
            " any"
        )


@fake("convolution_3x3")
def _(x: Tensor, weight: Tensor, transposed: bool) -> Tensor:
    _check(x, weight, transposed)
    return x.new_empty(*x.shape[:3], weight.shape[1 if transposed else 0])


@fake("convolution_3x3_backward")
def _(grad: Tensor, x: Tensor) -> Tensor:
    return x.new_empty(grad.shape[3], x.shape[3], 3, 3)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.transposed = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, weight = ctx.saved_tensors
    needs_x, needs_weight, _ = ctx.needs_input_grad
    grad_x = _convolution_3x3(grad, weight, not ctx.transposed) if needs_x else None
    pair = (x, grad) if ctx.transposed else (grad, x)
    return grad_x, _convolution_3x3_backward(*pair) if needs_weight else None, None


def _backward_of_pair(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    of_results, x = ctx.saved_tensors
    needs_results, needs_x = ctx.needs_input_grad
    return (
        _convolution_3x3(x, grad, False) if needs_results else None,
        _convolution_3x3(of_results, grad, True) if needs_x else None,
    )


autograd("convolution_3x3", _backward, _save)
autograd("convolution_3x3_backward", _backward_of_pair, lambda ctx, inputs, output: ctx.save_for_backward(*inputs))


@flops("convolution_3x3")
def _(x: tuple[int, ...], weight: tuple[int, ...], *_: Any, **__: Any) -> int:
    return 18 * x[0] * x[1] * x[2] * weight[0] * weight[1]


@flops("convolution_3x3_backward")
def _(grad: tuple[int, ...], x: tuple[int, ...], *_: Any, **__: Any) -> int:
    return 18 * x[0] * x[1] * x[2] * grad[3] * x[3]
