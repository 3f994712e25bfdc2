"""Convolutions, and windows of an image as columns of a matrix and back."""

from typing import Any

import torch

from ...errors import TensorValueError
from ..core.base import B2, FloatLike, Tensor, derive, like
from ..core.kinds import D1, D3, D4, D5, Float
from ..core.operands import computed, inner_as, ranked_spec
from ..core.spec import title
from ..options import ConvOptions, ConvTransposeOptions, DeformConvOptions, UnfoldOptions
from ..options.base import Sizes, both_ends, each, expanded, frozen_sizes


def conv1d(
    x: "Tensor[B2, D3, Float]", weight: "FloatLike[B2, D3]", bias: "FloatLike[B2, D1] | None", options: ConvOptions
) -> "Tensor[B2, D3, Float]":
    """Convolution. `[batch, in, l], [out, in / groups, k], [out] -> [batch, out, l_out]`. Torch: `F.conv1d`.
    Differs: padding of the two ends may differ.
    """
    return _conv("conv1d", 1, x, weight, bias, options)


def conv2d(
    x: "Tensor[B2, D4, Float]", weight: "FloatLike[B2, D4]", bias: "FloatLike[B2, D1] | None", options: ConvOptions
) -> "Tensor[B2, D4, Float]":
    """Convolution. `[batch, in, h, w], [out, in / groups, kh, kw], [out] -> [batch, out, h_out, w_out]`.
    Torch: `F.conv2d`. Differs: padding of the two ends may differ.
    """
    return _conv("conv2d", 2, x, weight, bias, options)


def conv3d(
    x: "Tensor[B2, D5, Float]", weight: "FloatLike[B2, D5]", bias: "FloatLike[B2, D1] | None", options: ConvOptions
) -> "Tensor[B2, D5, Float]":
    """Convolution. `[batch, in, d, h, w], [out, in / groups, kd, kh, kw], [out] -> [batch, out, ..]`.
    Torch: `F.conv3d`.
    Raises TensorValueError: channels, groups, sizes or options do not fit, or padding of the two ends differs.
    """
    if type(options.padding) is tuple:
        begin, end = both_ends(options.padding)
        if begin != end:
            raise TensorValueError(
                "Conv3d", f"padding of the two ends must be equal, got {options.padding}; pad before"
            )
    return _conv("conv3d", 3, x, weight, bias, options)


def conv2d_weight_backward(
    x: "Tensor[B2, D4, Float]", weight: "FloatLike[B2, D4]", output_grad: "FloatLike[B2, D4]", options: ConvOptions
) -> "Tensor[B2, D4, Float]":
    """The gradient of `conv2d`'s weight. `-> [out, in / groups, kh, kw]`. Torch: `torch.nn.grad.conv2d_weight`."""
    name = "conv2d_weight_backward"
    spec = ranked_spec(name, x, 4)
    kernel, grad = inner_as(name, weight, spec), inner_as(name, output_grad, spec)
    inner, *sizes = _padded(name, 2, x, options)
    _check_channels(name, inner, kernel, None, options.groups)
    return like(computed(name, spec.module.conv2d_weight_backward, inner, kernel, grad, *sizes, options.groups), spec)


def conv_transpose1d(
    x: "Tensor[B2, D3, Float]",
    weight: "FloatLike[B2, D3]",
    bias: "FloatLike[B2, D1] | None",
    options: ConvTransposeOptions,
) -> "Tensor[B2, D3, Float]":
    """Transposed convolution. `[batch, in, l], [in, out / groups, k], [out] -> [batch, out, l_out]`.
    Torch: `F.conv_transpose1d`. Differs: `padding_out` is torch's `output_padding`, of any size.
    """
    return _conv_transpose("conv_transpose1d", 1, x, weight, bias, options)


def conv_transpose2d(
    x: "Tensor[B2, D4, Float]",
    weight: "FloatLike[B2, D4]",
    bias: "FloatLike[B2, D1] | None",
    options: ConvTransposeOptions,
) -> "Tensor[B2, D4, Float]":
    """Transposed convolution. `[batch, in, h, w], [in, out / groups, kh, kw], [out] -> [batch, out, ..]`.
    Torch: `F.conv_transpose2d`. Differs: `padding_out` is torch's `output_padding`, of any size.
    """
    return _conv_transpose("conv_transpose2d", 2, x, weight, bias, options)


def conv_transpose3d(
    x: "Tensor[B2, D5, Float]",
    weight: "FloatLike[B2, D5]",
    bias: "FloatLike[B2, D1] | None",
    options: ConvTransposeOptions,
) -> "Tensor[B2, D5, Float]":
    """Transposed convolution. `[batch, in, d, h, w], [in, out / groups, kd, kh, kw], [out] -> [batch, out, ..]`.
    Torch: `F.conv_transpose3d`. Differs: `padding_out` is torch's `output_padding`, of any size.
    """
    return _conv_transpose("conv_transpose3d", 3, x, weight, bias, options)


def deform_conv2d(
    x: "Tensor[B2, D4, Float]",
    offset: "FloatLike[B2, D4]",
    weight: "FloatLike[B2, D4]",
    mask: "FloatLike[B2, D4] | None",
    bias: "FloatLike[B2, D1] | None",
    options: DeformConvOptions,
) -> "Tensor[B2, D4, Float]":
    """Convolution that reads at moved places. `[batch, in, h, w], .. -> [batch, out, h_out, w_out]`.

    Args:
        x: the input; what is read outside of it is 0.
        offset: moves (y, then x), `[batch, 2 * offset_groups * kh * kw, h_out, w_out]`.
        weight: `[out, in / weight_groups, kh, kw]`.
        mask: factors of what is read, `[batch, offset_groups * kh * kw, h_out, w_out]`.
        bias: `[out]`.

    Torch: none (torchvision's `deform_conv2d`).
    """
    name = "deform_conv2d"
    spec = ranked_spec(name, x, 4)
    kernel, moves = inner_as(name, weight, spec), inner_as(name, offset, spec)
    factors = None if mask is None else inner_as(name, mask, spec)
    offsets = None if bias is None else inner_as(name, bias, spec.ranks[1])
    _check_channels(name, x.inner, kernel, offsets, options.weight_groups)
    sizes, groups = expanded(name, options, 2), options.offset_groups
    _check_moves(x.inner, kernel, moves, factors, *sizes, groups=groups)
    out = computed(name, spec.module.deform_conv2d, x.inner, moves, kernel, factors, offsets, *sizes, groups)
    return like(out, spec)


def unfold4d(x: "Tensor[B2, D4, Float]", kernel_size: Sizes, options: UnfoldOptions) -> "Tensor[B2, D3, Float]":
    """Windows as columns (im2col). `[batch, channels, h, w] -> [batch, channels * kh * kw, windows]`.
    Torch: `F.unfold`.
    """
    spec = ranked_spec("unfold4d", x, 4)
    kernel, stride, padding, dilation = _windows("Unfold4d", kernel_size, options)
    return derive(computed("unfold4d", spec.module.unfold4d, x.inner, kernel, dilation, padding, stride), spec)


def fold4d(
    x: "Tensor[B2, D3, Float]", output_size: Sizes, kernel_size: Sizes, options: UnfoldOptions
) -> "Tensor[B2, D4, Float]":
    """The sum of windows (col2im). `[batch, channels * kh * kw, windows] -> [batch, channels, h, w]`.
    Torch: `F.fold`.
    """
    spec = ranked_spec("fold4d", x, 3)
    size = each("Fold4d", "output_size", frozen_sizes("Fold4d", "output_size", output_size, 1), 2)
    kernel, stride, padding, dilation = _windows("Fold4d", kernel_size, options)
    return derive(computed("fold4d", spec.module.fold4d, x.inner, size, kernel, dilation, padding, stride), spec)


def _conv(name: str, dims: int, x: Any, weight: Any, bias: Any, options: ConvOptions) -> Any:
    spec = ranked_spec(name, x, dims + 2)
    kernel = inner_as(name, weight, spec)
    offsets = None if bias is None else inner_as(name, bias, spec.ranks[1])
    _check_channels(name, x.inner, kernel, offsets, options.groups)
    inner, *sizes = _padded(name, dims, x, options)
    return like(computed(name, getattr(spec.module, name), inner, kernel, offsets, *sizes, options.groups), spec)


def _padded(name: str, dims: int, x: Any, options: ConvOptions) -> tuple[torch.Tensor, Any, Any, Any]:
    """The input, strides, padding and dilation; padding whose two ends differ is added to the input."""
    stride, padding, dilation = expanded(name, options, dims)
    begin, end = both_ends(padding)
    if begin == end:
        return x.inner, stride, begin, dilation
    amounts = [amount for pair in reversed(padding) for amount in pair]
    return x.spec.module.constant_pad(x.inner, amounts, 0.0), stride, (0,) * dims, dilation


def _conv_transpose(name: str, dims: int, x: Any, weight: Any, bias: Any, options: ConvTransposeOptions) -> Any:
    spec = ranked_spec(name, x, dims + 2)
    kernel = inner_as(name, weight, spec)
    offsets = None if bias is None else inner_as(name, bias, spec.ranks[1])
    if x.inner.shape[1] != kernel.shape[0]:
        raise TensorValueError(
            title(name),
            f"the input has {x.inner.shape[1]} channels, the weight is for {kernel.shape[0]}:"
            f" shapes {list(x.inner.shape)} and {list(kernel.shape)}",
        )
    *sizes, dilation = expanded(name, options, dims)
    out = computed(name, spec.module.conv_transpose, x.inner, kernel, offsets, *sizes, options.groups, dilation)
    return like(out, spec)


def _check_channels(name: str, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, groups: int) -> None:
    reasons: list[str] = []
    if x.shape[1] != weight.shape[1] * groups:
        reasons.append(
            f"the input has {x.shape[1]} channels, the weight is for {weight.shape[1]} in each of {groups} groups:"
            f" shapes {list(x.shape)} and {list(weight.shape)}"
        )
    if weight.shape[0] % groups:
        reasons.append(f"{weight.shape[0]} channels of the result can't be divided into {groups} groups")
    if bias is not None and bias.shape[0] != weight.shape[0]:
        reasons.append(f"expected a bias of size {weight.shape[0]}, one for each channel, got {bias.shape[0]}")
    if reasons:
        raise TensorValueError(title(name), *reasons)


def _check_moves(
    x: torch.Tensor,
    weight: torch.Tensor,
    offset: torch.Tensor,
    mask: torch.Tensor | None,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> None:
    if x.shape[1] % groups:
        raise TensorValueError("Deform Conv2d", f"{x.shape[1]} channels can't be divided into {groups} offset groups")
    kernel = weight.shape[2:]
    size = [
        (x.shape[2 + dim] + 2 * padding[dim] - dilation[dim] * (kernel[dim] - 1) - 1) // stride[dim] + 1
        for dim in range(2)
    ]
    taps = groups * kernel[0] * kernel[1]
    for name, argument, channels in (("offset", offset, 2 * taps), ("mask", mask, taps)):
        wanted = [x.shape[0], channels, *size]
        if argument is not None and list(argument.shape) != wanted:
            raise TensorValueError("Deform Conv2d", f"{name}: expected shape {wanted}, got {list(argument.shape)}")


def _windows(name: str, kernel_size: Any, options: UnfoldOptions) -> tuple[tuple[int, ...], ...]:
    kernel = each(name, "kernel_size", frozen_sizes(name, "kernel_size", kernel_size, 1), 2)
    return kernel, *expanded(name, options, 2)
