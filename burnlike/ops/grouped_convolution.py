"""Convolutions in groups of channels (Krizhevsky et al. 2012; of each channel by itself: Howard et al. 2017, section
3.1), of images whose channels are last.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..errors import ArgumentError, ShapeError
from ._arguments import check_tensor
from ._function import call, second_derivative
from ._library import autograd, fake, flops, op

FEWEST_CHANNELS = 16
DTYPES = (torch.float32, torch.bfloat16)

_grouped, _grouped_backward = op("grouped_convolution"), op("grouped_convolution_backward")


def is_group(channels: int) -> bool:
    """True for numbers of channels that groups of `grouped_convolution` have."""
    return channels in (1, 2, 4) or channels % 8 == 0


def grouped_convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int = 1, padding: int = 0
) -> Tensor:
    """`torch.nn.functional.conv2d(..., groups=channels // group)` of images whose channels are last.

    Differentiable any number of times, from the second derivative on in plain torch. Memory: the result, and backward
    the gradients and the weight in float32; x and the weight are saved.

    Args:
        x: `[n, h, w, c]`, float32 or bfloat16, on a CPU; on other devices it is the reference.
        weight: `[c, group, k, l]` in x's dtype, as of `nn.Conv2d`; a group has 1, 2, 4 or a multiple of 8 of the c
            channels, which are at least 16.
        bias: `[c]` in x's dtype, or None.
        stride: in both directions.
        padding: zeros on each side.

    Returns:
        `[n, (h + 2 * padding - k) // stride + 1, (w + 2 * padding - l) // stride + 1, c]`, contiguous. Summed in
        float32 and rounded once; the bits are the same for any number of threads.

    Raises:
        ShapeError: the channels or the sizes do not fit.
        ArgumentError: a stride below 1, or a padding below 0.
    """
    arguments = (x, weight, bias, stride, padding)
    if x.device.type not in ("cpu", "meta"):
        _check(*arguments)
        return grouped_convolution_reference(*arguments)
    return call("grouped_convolution", _grouped, grouped_convolution_reference, _check, *arguments)


def grouped_convolution_reference(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int = 1, padding: int = 0
) -> Tensor:
    """The same as `grouped_convolution` in plain torch, on any device."""
    # Not in bfloat16, where gradients of weights read memory beside small images (oneDNN of torch 2.13).
    dtype = torch.promote_types(x.dtype, torch.float32)
    images, weight = x.permute(0, 3, 1, 2).to(dtype), weight.to(dtype)
    y = functional.conv2d(
        images, weight, bias if bias is None else bias.to(dtype), stride, padding, groups=len(weight) // weight.shape[1]
    )
    return y.permute(0, 2, 3, 1).contiguous().to(x.dtype)


def _check(x: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: int) -> None:
    check_tensor("grouped_convolution", "x", x, DTYPES)
    channels = x.shape[-1] if x.dim() == 4 else -1
    fits = weight.dim() == 4 and weight.shape[0] == channels and 0 not in weight.shape
    if not fits or channels < FEWEST_CHANNELS or not is_group(weight.shape[1]) or channels % weight.shape[1]:
        raise ShapeError(
            f"grouped_convolution: expected images [n, h, w, c] of at least {FEWEST_CHANNELS} channels and a weight"
            f" [c, group, k, l] with a group of 1, 2, 4 or a multiple of 8 channels, got"
            f" {list(x.shape)} and {list(weight.shape)}; nn.functional.conv2d takes any"
        )
    check_tensor("grouped_convolution", "weight", weight, (x.dtype,), x.device)
    if bias is not None:
        check_tensor("grouped_convolution", "bias", bias, (x.dtype,), x.device, (channels,))
    if stride < 1 or padding < 0:
        raise ArgumentError(
            f"grouped_convolution: expected a stride of at least 1 and a padding of at least 0, got {stride} and"
            f" {padding}"
        )
    if any(size + 2 * padding < kernel for size, kernel in zip(x.shape[1:3], weight.shape[2:], strict=True)):
        raise ShapeError(
            f"grouped_convolution: expected images of at least {list(weight.shape[2:])} with their padding, got"
            f" {list(x.shape[1:3])} and a padding of {padding}"
        )


@fake("grouped_convolution")
def _(x: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: int) -> Tensor:
    _check(x, weight, bias, stride, padding)
    down, right = ((x.shape[it] + 2 * padding - weight.shape[it + 1]) // stride + 1 for it in (1, 2))
    return x.new_empty(x.shape[0], down, right, x.shape[3])


@fake("grouped_convolution_backward")
def _(grad: Tensor, x: Tensor, weight: Tensor, stride: int, padding: int) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), weight.new_empty(weight.shape), weight.new_empty(weight.shape[:1])


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, bias, *ctx.options = inputs
    ctx.has_bias = bias is not None
    ctx.save_for_backward(x, weight)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    grad_x, grad_weight, grad_bias = _grouped_backward(grad, *ctx.saved_tensors, *ctx.options)
    return grad_x, grad_weight, grad_bias if ctx.has_bias else None, None, None


def _gradients(grad: Tensor, x: Tensor, weight: Tensor, stride: int, padding: int) -> tuple[Tensor, ...]:
    result = grouped_convolution_reference(x, weight, None, stride, padding)
    return *torch.autograd.grad(result, (x, weight), grad, create_graph=True), grad.sum((0, 1, 2))


autograd("grouped_convolution", _backward, _save)
autograd("grouped_convolution_backward", *second_derivative(_gradients))


@flops("grouped_convolution")
def _(x: tuple[int, ...], weight: tuple[int, ...], *_: Any, out_shape: tuple[int, ...], **__: Any) -> int:
    return 2 * out_shape[0] * out_shape[1] * out_shape[2] * out_shape[3] * weight[1] * weight[2] * weight[3]


@flops("grouped_convolution_backward")
def _(grad: tuple[int, ...], x: tuple[int, ...], weight: tuple[int, ...], *_: Any, **__: Any) -> int:
    return 4 * grad[0] * grad[1] * grad[2] * grad[3] * weight[1] * weight[2] * weight[3]
