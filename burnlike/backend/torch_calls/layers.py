"""Operators of layers: matrix products, convolutions, pools, normalization, activations.

Resampling, and padding by mirrors and edges, take each dimension by itself: y = A x B for matrices A and B that do not
depend on x. What the forward operator makes of the rows of an identity is such a matrix, so the gradient of x is A' g
B'.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..._torch_compat.dispatch import decomposition_of, nearest_exact
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
    return [list(size) * rank if len(size) == 1 else list(size) for size in sizes]


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


Forward = Callable[[Tensor, int], Tensor]


def separable_backward(t: Tables, grad: Tensor, size: Sizes, forward: Forward) -> Tensor:
    """The gradient of an input whose last dimensions are `size`.

    Args:
        t: the tables.
        grad: of the output.
        size: the spatial sizes of the input.
        forward: the operator along one dimension, `[rows, 1, n] -> [rows, 1, m]`, given also which dimension it is.
    """
    first = grad.ndim - len(size)
    for place, length in enumerate(size):
        identity = t.float.eye(length, grad.dtype, grad.device)
        with t.mode:
            matrix = forward(t.float.reshape(identity, [length, 1, length]), place)
        matrix = t.float.reshape(matrix, [length, matrix.shape[-1]])
        moved = t.float.swap_dims(grad, first + place, -1)
        rows = t.float.reshape(moved, [-1, moved.shape[-1]])
        product = t.float.matmul(rows, t.float.swap_dims(matrix, 0, 1))
        grad = t.float.swap_dims(t.float.reshape(product, [*moved.shape[:-1], length]), first + place, -1)
    return grad


aten: Any = torch.ops.aten


def _upsample(mode: str, rank: int, *, corners: bool) -> None:
    """`grad, output_size, input_size, [align_corners,] one scale for each dimension`."""
    one: dict[str, Any] = {"nearest": aten.upsample_nearest1d, "_nearest_exact": nearest_exact}
    prefix = mode if mode.startswith("_") else f"upsample_{mode}"
    name = {"_nearest_exact": f"_upsample_nearest_exact{rank}d"}.get(mode, f"{prefix}{rank}d")

    @translates("_".join((name, "backward")))
    def backward(t: Tables, grad: Tensor, output_size: Sizes, input_size: Sizes, *options: Any) -> Tensor:
        align = options[0] if corners else False
        scales = options[1:] if corners else options

        def forward(rows: Tensor, place: int) -> Tensor:
            scale = scales[place] if place < len(scales) else None
            size = [output_size[place]]
            if mode in one:
                return one[mode](rows, size, scale)
            if mode == "bicubic":
                wide = aten.upsample_bicubic2d(rows.unsqueeze(2), [1, *size], align, None, scale)
                return wide.squeeze(2)
            return aten.upsample_linear1d(rows, size, align, scale)

        return separable_backward(t, grad, input_size[2:], forward)


for _rank in (1, 2, 3):
    _upsample("nearest", _rank, corners=False)
    _upsample("_nearest_exact", _rank, corners=False)
for _mode, _rank in (("linear", 1), ("bilinear", 2), ("trilinear", 3), ("bicubic", 2)):
    _upsample(_mode, _rank, corners=True)


def _adaptive_avg_pool(rank: int) -> None:
    @translates(f"_adaptive_avg_pool{rank}d_backward")
    def backward(t: Tables, grad: Tensor, tensor: Tensor) -> Tensor:
        sizes = grad.shape[-rank:]
        return separable_backward(
            t, grad, tensor.shape[-rank:], lambda rows, place: torch.adaptive_avg_pool1d(rows, sizes[place])
        )


_adaptive_avg_pool(2)
_adaptive_avg_pool(3)


_MODES = {"upsample_nearest": "Nearest", "_upsample_nearest_exact": "NearestExact"}
_MODES |= {"upsample_bilinear": "Bilinear", "upsample_bicubic": "Bicubic"}


def _interpolate(name: str, mode: str) -> None:
    @translates(f"{name}2d")
    def interpolate(t: Tables, tensor: Tensor, output_size: Sizes, *options: Any) -> Tensor:
        if not tensor.dtype.is_floating_point:
            raise NotImplementedError("of integers")
        corners = bool(options[0]) if mode in ("Bilinear", "Bicubic") else False
        scales = options[1:] if mode in ("Bilinear", "Bicubic") else options
        if any(scale is not None for scale in scales):  # they move the places that are read
            with t.mode:
                decomposition: Any = decomposition_of(getattr(aten, f"{name}2d").default)
                return decomposition(tensor, output_size, *options)
        return t.module.interpolate(tensor, list(output_size), mode, corners)


for _name, _mode in _MODES.items():
    _interpolate(_name, _mode)


def _padding(kind: str, function: str, rank: int) -> None:
    forward: Any = getattr(aten, f"{kind}_pad1d")

    @translates(f"{kind}_pad{rank}d")
    def padded(t: Tables, tensor: Tensor, padding: Sizes) -> Tensor:
        pairs = [(padding[place], padding[place + 1]) for place in range(2 * rank - 2, -1, -2)]
        return getattr(t.of(tensor), function)(tensor, pairs)

    @translates(f"{kind}_pad{rank}d_backward")
    def backward(t: Tables, grad: Tensor, tensor: Tensor, padding: Sizes) -> Tensor:
        amounts = [padding[place : place + 2] for place in range(2 * rank - 2, -1, -2)]
        return separable_backward(
            t, grad, tensor.shape[-rank:], lambda rows, place: forward(rows, list(amounts[place]))
        )


for _rank in (1, 2, 3):
    _padding("replication", "pad_edge", _rank)
    _padding("reflection", "pad_reflect", _rank)


@translates("avg_pool2d_backward")
def avg_pool2d_backward(
    t: Tables,
    grad: Tensor,
    tensor: Tensor,
    kernel_size: Sizes,
    stride: Sizes,
    padding: Sizes,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    kernel, pad = (list(it) * 2 if len(it) == 1 else list(it) for it in (kernel_size, padding))
    step = list(stride) * 2 if len(stride) == 1 else list(stride) or kernel
    shape = grad.shape
    if grad.ndim == 3:
        grad = t.float.reshape(grad, [1, *shape])
    include = count_include_pad or divisor_override is not None
    result = t.module.avg_pool2d_backward(grad, kernel, step, pad, pad, include, list(tensor.shape[-2:]))
    if divisor_override is not None:
        result = t.float.mul(result, kernel[0] * kernel[1] / divisor_override)
    return result if len(shape) == 4 else t.float.reshape(result, result.shape[1:])
