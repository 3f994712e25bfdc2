"""Resampling and padding by mirrors and edges, and their backward operators.

These take each dimension by itself: y = A x B for matrices A and B that do not depend on x. What the forward operator
makes of the rows of an identity is such a matrix, so the gradient of x is A' g B'.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..._torch_compat.dispatch import decomposition_of, nearest_exact
from .tables import Sizes, Tables, translates

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
        if any(it is not None for it in scales):  # they move the places that are read
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
