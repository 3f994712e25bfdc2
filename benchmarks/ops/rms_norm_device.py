"""RMS normalization alone on a GPU, against a copy on the device and against torch.

    python -m benchmarks.ops.rms_norm_device

The forward pass by itself, which reads x and writes y, and both passes: the second reads x and the gradient of y and
writes that of x. What is read of gamma and kept for each row is left out. Without a GPU nothing is measured.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks._device import SAMPLE_BYTES, call_count, compare_with_copy, compare_with_torch
from benchmarks._harness import Comparison, main
from benchmarks.ops._functions import both_passes
from burnlike.ops import rms_norm

EPSILON = 1e-5
SHAPES = ((4096, 1024), (16_384, 4096), (8192, 8192))
# Shares of a copy's rate.
FORWARD_BAR, BOTH_BAR = 0.85, 0.8

Norm = Callable[..., Tensor]


def _ours(x: Tensor, gamma: Tensor) -> Tensor:
    return rms_norm(x, gamma, EPSILON)


def _theirs(x: Tensor, gamma: Tensor) -> Tensor:
    return F.rms_norm(x, gamma.shape, gamma, EPSILON)


def _forward(norm: Norm, inputs: list[Tensor]) -> Callable[[], object]:
    def call() -> None:
        with torch.no_grad():
            norm(*inputs)

    return call


def measure(
    rows: int, width: int, dtype: torch.dtype, repeats: int, device: str, sample_bytes: int = SAMPLE_BYTES
) -> list[Comparison]:
    """Both passes of one shape."""
    torch.manual_seed(0)
    results = []
    for name, made, passes, bar in (("forward", _forward, 2, FORWARD_BAR), ("both passes", both_passes, 5, BOTH_BAR)):
        moved = passes * rows * width * dtype.itemsize
        inputs = [
            [torch.randn(*shape, dtype=dtype, device=device).requires_grad_() for shape in ((rows, width), (width,))]
            for _ in range(call_count(moved, sample_bytes))
        ]
        ours, theirs = ([made(norm, tensors) for tensors in inputs] for norm in (_ours, _theirs))
        label = f"rms_norm {name} {rows} x {width} {str(dtype).removeprefix('torch.')}"
        results.append(compare_with_copy(label, ours, moved, bar, repeats, device))
        results.append(compare_with_torch(label, ours, theirs, repeats, device))
    return results


def run(repeats: int) -> list[Comparison]:
    """Measure float32 and bfloat16 where there is a GPU."""
    if not torch.cuda.is_available():
        print("no CUDA device: not measured")
        return []
    return [
        result
        for shape in SHAPES
        for dtype in (torch.float32, torch.bfloat16)
        for result in measure(*shape, dtype, repeats, "cuda")
    ]


if __name__ == "__main__":
    main(__doc__ or "", run)
