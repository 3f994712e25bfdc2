"""Windows of an image as columns of a matrix, and back."""

from typing import Any

from ..core.base import B2, Tensor, derive
from ..core.kinds import D3, D4, Float
from ..core.operands import fail, ranked_spec
from ..options import UnfoldOptions
from ..options.base import Sizes, each, expanded, frozen_sizes


def unfold4d(x: "Tensor[B2, D4, Float]", kernel_size: Sizes, options: UnfoldOptions) -> "Tensor[B2, D3, Float]":
    """Windows as columns (im2col). `[batch, channels, h, w] -> [batch, channels * kh * kw, windows]`.

    Torch: `F.unfold`.
    """
    spec = ranked_spec("unfold4d", x, 4)
    kernel, stride, padding, dilation = _windows("Unfold4d", kernel_size, options)
    try:
        return derive(spec.module.unfold4d(x.inner, kernel, dilation, padding, stride), spec)
    except Exception as error:
        fail("unfold4d", error, x.inner)


def fold4d(
    x: "Tensor[B2, D3, Float]", output_size: Sizes, kernel_size: Sizes, options: UnfoldOptions
) -> "Tensor[B2, D4, Float]":
    """The sum of windows (col2im). `[batch, channels * kh * kw, windows] -> [batch, channels, h, w]`.

    Torch: `F.fold`.
    """
    spec = ranked_spec("fold4d", x, 3)
    size = each("Fold4d", "output_size", frozen_sizes("Fold4d", "output_size", output_size, 1), 2)
    kernel, stride, padding, dilation = _windows("Fold4d", kernel_size, options)
    try:
        return derive(spec.module.fold4d(x.inner, size, kernel, dilation, padding, stride), spec)
    except Exception as error:
        fail("fold4d", error, x.inner)


def _windows(name: str, kernel_size: Any, options: UnfoldOptions) -> tuple[tuple[int, ...], ...]:
    kernel = each(name, "kernel_size", frozen_sizes(name, "kernel_size", kernel_size, 1), 2)
    return kernel, *expanded(name, options, 2)
