"""Cases of pools."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from burnlike import nn

from . import Case, floats


def windows(x: Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: int = 1) -> Tensor:
    """The elements of each window in a last dimension, `[batch, channels, *out, window]`."""
    for dim, (size, step) in enumerate(zip(kernel, stride, strict=True), 2):
        x = x.unfold(dim, (size - 1) * dilation + 1, step)
    x = x[(..., *(slice(None, None, dilation) for _ in kernel))]
    return x.flatten(-len(kernel))


def max_of_windows(amounts: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: int = 1) -> Any:
    """The maximum of each window of the input with -inf around it; amounts from the last dimension on."""
    return lambda layer, x: windows(functional.pad(x, amounts, value=-torch.inf), kernel, stride, dilation).amax(-1)


def mean_of_windows(
    amounts: Sequence[int], kernel: Sequence[int], stride: Sequence[int], over: Sequence[int] | None = None
) -> Any:
    """The sum of each window of the input with zeros around it, over its elements and the zeros that `over` counts."""

    def reference(layer: Any, x: Tensor) -> Tensor:
        left = [amount - counted for amount, counted in zip(amounts, over or [0] * len(amounts), strict=True)]
        ones = functional.pad(torch.ones_like(x), over, value=1.0) if over else torch.ones_like(x)
        count = windows(functional.pad(ones, left), kernel, stride).sum(-1)
        return windows(functional.pad(x, amounts), kernel, stride).sum(-1) / count

    return reference


def line() -> tuple[Tensor]:
    return (floats(2, 3, 7),)


def image() -> tuple[Tensor]:
    return (floats(2, 3, 6, 7),)


CASES = [
    Case("MaxPool1d", nn.MaxPool1dConfig(kernel_size=3), line, bad_shapes=((2, 7), (2, 3, 2))),
    Case("MaxPool1d/options", nn.MaxPool1dConfig(kernel_size=3, stride=2, dilation=2, padding=1, ceil_mode=True), line),
    Case(
        "MaxPool1d/same",
        nn.MaxPool1dConfig(kernel_size=2, stride=1, padding="Same"),
        line,
        max_of_windows((0, 1), (2,), (1,)),
    ),
    Case(
        "MaxPool1d/wide_padding",
        nn.MaxPool1dConfig(kernel_size=3, stride=1, padding=(2, 2)),
        line,
        max_of_windows((2, 2), (3,), (1,)),
    ),
    Case(
        "MaxPool3d",
        nn.MaxPool3dConfig(kernel_size=2),
        lambda: (floats(2, 3, 4, 5, 4),),
        bad_shapes=((3, 6, 7, 2), (2, 3, 1, 7, 7)),
    ),
    Case(
        "MaxPool3d/options",
        nn.MaxPool3dConfig(kernel_size=(3, 2, 2), strides=(2, 1, 1), padding=(1, 0, 1), ceil_mode=True),
        lambda: (floats(2, 3, 4, 5, 4),),
    ),
    Case(
        "MaxPool3d/same",
        nn.MaxPool3dConfig(kernel_size=2, strides=1, padding="Same"),
        lambda: (floats(2, 3, 3, 4, 3),),
        max_of_windows([0, 1, 0, 1, 0, 1], (2, 2, 2), (1, 1, 1)),
    ),
    Case("MaxPool2d", nn.MaxPool2dConfig(kernel_size=2), image, bad_shapes=((3, 6, 7), (2, 3, 1, 7), (2, 3, 6, 1))),
    Case(
        "MaxPool2d/options",
        nn.MaxPool2dConfig(kernel_size=(3, 2), strides=(2, 1), dilation=(1, 2), padding=(1, 1, 1, 1), ceil_mode=True),
        image,
    ),
    Case(
        "MaxPool2d/asymmetric_ceil",
        nn.MaxPool2dConfig(kernel_size=2, padding=(1, 0, 0, 1), dilation=2, ceil_mode=True),
        image,
        # height 1 + 6 + 0: 3 windows of 3; width 0 + 7 + 1: 4 windows, the last reaches 1 over the end.
        max_of_windows((0, 2, 1, 0), (2, 2), (2, 2), 2),
    ),
    Case("AvgPool1d", nn.AvgPool1dConfig(kernel_size=3), line, bad_shapes=((2, 7), (2, 3, 2))),
    Case("AvgPool1d/options", nn.AvgPool1dConfig(kernel_size=3, stride=2, padding=1, ceil_mode=True), line),
    Case(
        "AvgPool1d/same",
        nn.AvgPool1dConfig(kernel_size=2, stride=1, padding="Same"),
        line,
        mean_of_windows((0, 1), (2,), (1,), over=(0, 1)),
    ),
    Case(
        "AvgPool1d/asymmetric_uncounted",
        nn.AvgPool1dConfig(kernel_size=3, stride=2, padding=(1, 0), count_include_pad=False),
        line,
        mean_of_windows((1, 0), (3,), (2,)),
    ),
    Case("AvgPool2d", nn.AvgPool2dConfig(kernel_size=2), image, bad_shapes=((3, 6, 7), (2, 3, 1, 7), (2, 3, 6, 1))),
    Case(
        "AvgPool2d/uncounted",
        nn.AvgPool2dConfig(kernel_size=(3, 2), strides=(2, 1), padding=(1, 1, 1, 1), count_include_pad=False),
        image,
    ),
    Case(
        "AvgPool2d/asymmetric_ceil",
        nn.AvgPool2dConfig(kernel_size=3, strides=2, padding=(1, 0, 0, 1), ceil_mode=True),
        image,
        # height 1 + 6 + 0: 3 windows; width 0 + 7 + 1: 4 windows, the last reaches 1 over the end, which never counts.
        mean_of_windows((0, 2, 1, 0), (3, 3), (2, 2), over=(0, 1, 1, 0)),
    ),
    Case("AdaptiveAvgPool1d", nn.AdaptiveAvgPool1dConfig(output_size=3), line, bad_shapes=((3, 7),)),
    Case("AdaptiveAvgPool2d", nn.AdaptiveAvgPool2dConfig(output_size=(4, 3)), image, bad_shapes=((3, 6, 7),)),
    Case(
        "AdaptiveAvgPool3d",
        nn.AdaptiveAvgPool3dConfig(output_size=2),
        lambda: (floats(1, 2, 3, 4, 5),),
        bad_shapes=((2, 3, 4, 5),),
    ),
]
