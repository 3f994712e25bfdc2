"""Cases of resizing."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from burnlike import nn

from . import Case, floats


def cubic(distance: float) -> float:
    """The kernel of Keys 1981, eq. 4, with a = -0.75 as in torch."""
    a, d = -0.75, abs(distance)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def lanczos(distance: float) -> float:
    """sinc(d) * sinc(d / 3), and 0 from 3 on."""
    if distance == 0:
        return 1.0
    angle = math.pi * distance
    return 3 * math.sin(angle) * math.sin(angle / 3) / angle**2 if abs(distance) < 3 else 0.0


def matrix(length: int, size: int, kernel: Callable[[float], float], corners: bool, clamped: bool) -> Tensor:
    """`[size, length]`, the share of each element in each output; places outside count as the edge, or not at all."""
    rows = torch.zeros(size, length, dtype=torch.float64)
    for row in range(size):
        place = row * (length - 1) / max(size - 1, 1) if corners else (row + 0.5) * length / size - 0.5
        for index in range(math.floor(place) - 2, math.floor(place) + 4):
            if clamped:
                rows[row, min(max(index, 0), length - 1)] += kernel(place - index)
            elif 0 <= index < length:
                rows[row, index] += kernel(place - index)
    return rows / rows.sum(1, keepdim=True)


def by_matrix(kernel: Callable[[float], float], clamped: bool) -> Any:
    """The formula, one dimension after the other."""

    def reference(layer: Any, x: Tensor) -> Tensor:
        sizes = layer.output_size if isinstance(layer.output_size, tuple) else (layer.output_size,)
        for dim, size in enumerate(sizes, 2):
            rows = matrix(x.shape[dim], size, kernel, layer.align_corners, clamped)
            x = (x.movedim(dim, -1) @ rows.mT).movedim(-1, dim)
        return x

    return reference


def line() -> tuple[Tensor]:
    return (floats(2, 3, 7),)


def image() -> tuple[Tensor]:
    return (floats(2, 3, 4, 5),)


CASES = [
    Case("Interpolate1d", nn.Interpolate1dConfig(output_size=4), line, bad_shapes=((3, 7), (2, 2, 3, 7))),
    Case(
        "Interpolate1d/exact",
        nn.Interpolate1dConfig(scale_factor=0.6, mode="NearestExact"),
        line,
        bad_shapes=((2, 3, 1),),
    ),
    Case("Interpolate1d/linear", nn.Interpolate1dConfig(output_size=10, mode="Linear"), line),
    Case(
        "Interpolate1d/linear_unaligned",
        nn.Interpolate1dConfig(scale_factor=1.5, mode="Linear", align_corners=False),
        line,
    ),
    Case(
        "Interpolate1d/cubic",
        nn.Interpolate1dConfig(output_size=10, mode="Cubic"),
        line,
        by_matrix(cubic, clamped=True),
    ),
    Case(
        "Interpolate1d/lanczos",
        nn.Interpolate1dConfig(output_size=10, mode="Lanczos", align_corners=False),
        line,
        by_matrix(lanczos, clamped=False),
    ),
    Case("Interpolate2d", nn.Interpolate2dConfig(output_size=6), image, bad_shapes=((3, 4, 5),)),
    Case("Interpolate2d/exact", nn.Interpolate2dConfig(output_size=(3, 9), mode="NearestExact"), image),
    Case(
        "Interpolate2d/linear",
        nn.Interpolate2dConfig(scale_factor=(2.0, 0.7), mode="Linear"),
        image,
        bad_shapes=((2, 3, 4, 1),),
    ),
    Case(
        "Interpolate2d/linear_unaligned",
        nn.Interpolate2dConfig(scale_factor=1.5, mode="Linear", align_corners=False),
        image,
    ),
    Case("Interpolate2d/cubic", nn.Interpolate2dConfig(output_size=(7, 3), mode="Cubic"), image),
    Case(
        "Interpolate2d/lanczos",
        nn.Interpolate2dConfig(output_size=(9, 4), mode="Lanczos"),
        image,
        by_matrix(lanczos, clamped=False),
    ),
]
