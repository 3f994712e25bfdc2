"""Sums of squares of gradients alone on a GPU, against a copy on the device and against torch's norm of them all.

    python -m benchmarks.ops.gradient_squares_device

The gradients of a language model of 92 M values, and 268 M values in four tensors. Without a GPU nothing is measured.
"""

import torch
from torch.nn.utils import get_total_norm

from benchmarks._device import SAMPLE_BYTES, call_count, compare_with_copy, compare_with_torch
from benchmarks._harness import Comparison, main
from benchmarks.optim._sides import Shapes, grads_of, language_model, value_count
from burnlike.ops import gradient_squares_

LARGE: Shapes = [(16_384, 4096)] * 4
# Of a copy's rate.
BAR = 0.85


def measure(
    name: str, shapes: Shapes, dtype: torch.dtype, repeats: int, device: str, sample_bytes: int = SAMPLE_BYTES
) -> list[Comparison]:
    """One list of gradients."""
    moved = value_count(shapes) * dtype.itemsize
    lists = [[it.to(dtype) for it in grads_of(shapes, device)] for _ in range(call_count(moved, sample_bytes))]
    squares = torch.zeros(len(shapes), dtype=torch.float64, device=device)
    ours = [lambda grads=grads: gradient_squares_(grads, squares) for grads in lists]
    theirs = [lambda grads=grads: get_total_norm(grads) for grads in lists]
    label = f"squares, {name}, {str(dtype).removeprefix('torch.')}"
    return [
        compare_with_copy(label, ours, moved, BAR, repeats, device),
        compare_with_torch(label, ours, theirs, repeats, device),
    ]


def run(repeats: int) -> list[Comparison]:
    """Measure float32 and bfloat16 where there is a GPU."""
    if not torch.cuda.is_available():
        print("no CUDA device: not measured")
        return []
    return [
        result
        for name, shapes in (("language model", language_model()), ("4 tensors", LARGE))
        for dtype in (torch.float32, torch.bfloat16)
        for result in measure(name, shapes, dtype, repeats, "cuda")
    ]


if __name__ == "__main__":
    main(__doc__ or "", run)
