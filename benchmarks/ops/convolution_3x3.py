"""Convolutions of 3 x 3 of images in channels_last, beside torch's, which are oneDNN's."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks._harness import Comparison, main
from benchmarks.ops._functions import FunctionCase, measure
from burnlike.ops import convolution_3x3


def _inputs(count: int, channels: int, size: int) -> Callable[[torch.dtype], list[Tensor]]:
    def make(dtype: torch.dtype) -> list[Tensor]:
        x = torch.randn(count, channels, size, size, dtype=dtype).contiguous(memory_format=torch.channels_last)
        return [x.requires_grad_(), torch.randn(channels, channels, 3, 3, dtype=dtype).requires_grad_()]

    return make


def _ours(x: Tensor, weight: Tensor) -> Tensor:
    return convolution_3x3(x.permute(0, 2, 3, 1), weight).permute(0, 3, 1, 2)


def _theirs(x: Tensor, weight: Tensor) -> Tensor:
    return F.conv2d(x, weight, padding=1)


CASES = [
    FunctionCase(
        name=f"convolution_3x3 {count} x {channels} x {size} x {size}",
        ours=_ours,
        theirs=_theirs,
        theirs_name="torch's function",
        inputs=_inputs(count, channels, size),
        values_moved=6 * count * channels * size * size + 3 * 9 * channels * channels,
    )
    for count, channels, size in ((32, 32, 32), (32, 64, 16), (32, 128, 8), (32, 256, 4), (8, 64, 32))
]
DEVICE_CASES: list[FunctionCase] = []


def run(repeats: int) -> list[Comparison]:
    """Measure float32."""
    return measure(CASES, repeats, (torch.float32,))


if __name__ == "__main__":
    main(__doc__ or "", run)
