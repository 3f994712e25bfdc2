"""Operators of layers: matrix products, convolutions, pools, normalization, activations."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .pointwise import add, mul
from .shape import transpose
from .tables import Sizes, Tables, kind_of, translate, translates


@translates("mm", "bmm")
def matmul(t: Tables, lhs: Tensor, rhs: Tensor) -> Tensor:
    return t.of(lhs).matmul(lhs, rhs)


@translates("mv")
def mv(t: Tables, matrix: Tensor, vector: Tensor) -> Tensor:
    return t.module.matvec(matrix, vector)


@translates("addmm")
def addmm(t: Tables, bias: Tensor, lhs: Tensor, rhs: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    if beta == alpha == 1 and bias.ndim == 1 and bias.shape[0] == rhs.shape[1] and bias.dtype.is_floating_point:
        return t.module.linear(lhs, rhs, bias)
    beta, alpha = (kind_of(bias.dtype)(it) for it in (beta, alpha))  # integers are multiplied by whole numbers
    product = matmul(t, lhs, rhs)
    product = product if alpha == 1 else mul(t, product, alpha)
    return product if beta == 0 else add(t, product, bias if beta == 1 else mul(t, bias, beta))


@translates("convolution")
def convolution(
    t: Tables,
    tensor: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
) -> Tensor:
    rank = tensor.ndim - 2
    stride, padding, dilation, added = _each(rank, stride, padding, dilation, output_padding)
    if transposed:
        return t.module.conv_transpose(tensor, weight, bias, stride, padding, added, groups, dilation)
    return getattr(t.module, f"conv{rank}d")(tensor, weight, bias, stride, padding, dilation, groups)


@translates("convolution_backward")
def convolution_backward(
    t: Tables,
    grad: Tensor,
    tensor: Tensor,
    weight: Tensor,
    bias_sizes: Sizes | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
    mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    rank = tensor.ndim - 2
    stride, padding, dilation = _each(rank, stride, padding, dilation)
    to_tensor = to_weight = to_bias = None
    wide = tensor
    if transposed:  # output_padding of a whole stride or more leaves room for windows that no input has
        sizes = [
            (size + 2 * pad - gap * (span - 1) - 1) // step + 1
            for size, pad, gap, span, step in zip(
                grad.shape[2:], padding, dilation, weight.shape[2:], stride, strict=True
            )
        ]
        behind = [
            extra for had, size in zip(tensor.shape[:1:-1], sizes[::-1], strict=True) for extra in (0, size - had)
        ]
        wide = t.module.constant_pad(tensor, behind, 0.0) if any(behind) else tensor
    if mask[0] and transposed:
        conv = getattr(t.module, f"conv{rank}d")
        to_tensor = conv(grad, weight, None, stride, padding, dilation, groups)
        if wide is not tensor:
            to_tensor = t.float.slice(to_tensor, tuple(slice(0, size) for size in tensor.shape), ())
    elif mask[0]:
        # What the windows of the forward pass left over at the end gets no gradient.
        rests = [
            size + 2 * pad - gap * (span - 1) - 1 - step * (windows - 1)
            for size, pad, gap, span, step, windows in zip(
                tensor.shape[2:], padding, dilation, weight.shape[2:], stride, grad.shape[2:], strict=True
            )
        ]
        to_tensor = t.module.conv_transpose(grad, weight, None, stride, padding, rests, groups, dilation)
    if mask[1]:
        inputs, outputs = (grad, wide) if transposed else (tensor, grad)
        to_weight = _weight_gradient(t, inputs, outputs, weight, stride, padding, dilation, groups)
    if mask[2]:
        to_bias = t.float.sum_dim(grad, [0, *range(2, grad.ndim)], False)
    return to_tensor, to_weight, to_bias


def _weight_gradient(
    t: Tables,
    inputs: Tensor,
    outputs: Tensor,
    weight: Tensor,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> Tensor:
    """A convolution of the input by the output's gradient, channels in place of the batch."""
    if len(stride) == 2:
        return t.module.conv2d_weight_backward(inputs, weight, outputs, stride, padding, dilation, groups)
    conv = getattr(t.module, f"conv{len(stride)}d")
    parts: list[Tensor] = []
    many_in, many_out = inputs.shape[1] // groups, outputs.shape[1] // groups
    for group in range(groups):
        x = t.float.narrow(inputs, 1, group * many_in, many_in)
        y = t.float.narrow(outputs, 1, group * many_out, many_out)
        part = conv(transpose(t, x, 0, 1), transpose(t, y, 0, 1), None, dilation, padding, stride, 1)
        part = t.float.slice(part, (slice(None), slice(None), *(slice(0, size) for size in weight.shape[2:])), ())
        parts.append(transpose(t, part, 0, 1))
    return parts[0] if groups == 1 else t.float.cat(parts, 0)


def _each(rank: int, *sizes: Sizes) -> list[list[int]]:
    """Sizes, one for each of `rank` dimensions, of which torch may give one for all."""
    return [list(it) * rank if len(it) == 1 else list(it) for it in sizes]


@translates("max_pool2d_with_indices")
def max_pool(
    t: Tables,
    tensor: Tensor,
    kernel_size: Sizes,
    stride: Sizes = (),
    padding: Sizes = (0,),
    dilation: Sizes = (1,),
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    x = tensor if tensor.ndim == 4 else t.reshape(tensor, [1, *tensor.shape])
    kernel, step, pad, gap = _each(2, kernel_size, stride, padding, dilation)
    pooled = t.module.max_pool_with_indices(x, kernel, step or kernel, pad, pad, gap, ceil_mode, torch.int64)
    values, places = (it if x is tensor else t.reshape(it, it.shape[1:]) for it in pooled)
    return values, places


@translates("max_pool2d_with_indices_backward")
def max_pool_backward(t: Tables, grad: Tensor, tensor: Tensor, *options: Any) -> Tensor:
    # torch 2.11 has no decomposition of it. The last argument is where each element came from.
    shape, places = tensor.shape, options[-1]
    if tensor.ndim == 3:
        grad, places = (t.reshape(it, [1, *it.shape]) for it in (grad, places))
    return t.reshape(t.module.max_pool2d_backward(grad, places, list(shape[-2:])), shape)


def _avg_pool(name: str, rank: int) -> None:
    @translates(name)
    def pooled(
        t: Tables,
        tensor: Tensor,
        kernel_size: Sizes,
        stride: Sizes = (),
        padding: Sizes = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor:
        x = tensor if tensor.ndim == rank + 2 else t.reshape(tensor, [1, *tensor.shape])
        kernel, step, pad = _each(rank, kernel_size, stride, padding)
        if divisor_override is not None and (ceil_mode or not x.dtype.is_floating_point):
            raise NotImplementedError("a divisor of one's own with ceil_mode, or of integers")
        include = count_include_pad or divisor_override is not None
        result = t.module.avg_pool(x, kernel, step or kernel, pad, pad, include, ceil_mode)
        if divisor_override is not None:
            result = t.float.mul(result, math.prod(kernel) / divisor_override)
        return result if x is tensor else t.reshape(result, result.shape[1:])


_avg_pool("avg_pool1d", 1)
_avg_pool("avg_pool2d", 2)


def _adaptive_pool(name: str, rank: int) -> None:
    @translates(name, *([f"_{name}"] if rank > 1 else []))
    def pooled(t: Tables, tensor: Tensor, output_size: Sizes) -> Tensor:
        x = tensor if tensor.ndim == rank + 2 else t.reshape(tensor, [1, *tensor.shape])
        result = getattr(t.module, name)(x, list(output_size))
        return result if x is tensor else t.reshape(result, result.shape[1:])


for _rank in (1, 2, 3):
    _adaptive_pool(f"adaptive_avg_pool{_rank}d", _rank)


@translates("native_layer_norm")
def native_layer_norm(
    t: Tables, tensor: Tensor, shape: Sizes, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    kept = list(tensor.shape[: tensor.ndim - len(shape)])
    rows = t.reshape(tensor, [math.prod(kept), math.prod(shape)])
    gamma = t.full([rows.shape[1]], 1, tensor.dtype, tensor.device) if weight is None else _flat(t, weight)
    result = t.module.layer_norm(rows, gamma, None if bias is None else _flat(t, bias), eps)
    # The derivative reads these two.
    variance, mean = t.float.var_mean(rows, 1, False)
    root = t.float.recip(t.float.sqrt(t.float.add(variance, eps)))
    sizes = [*kept, *[1] * len(shape)]
    return t.reshape(result, tensor.shape), t.reshape(mean, sizes), t.reshape(root, sizes)


def _flat(t: Tables, tensor: Tensor) -> Tensor:
    return t.reshape(tensor, [tensor.numel()])


translate(
    dot=lambda t, lhs, rhs: t.of(lhs).dot(lhs, rhs).reshape(()),
    # In the order of both: kernel, dilation, padding, stride.
    im2col=lambda t, x, *sizes: t.module.unfold4d(x, *map(list, sizes)),
    col2im=lambda t, x, output_size, *sizes: t.module.fold4d(x, list(output_size), *map(list, sizes)),
)
