"""SwiGLU, forward and backward, against silu and a product."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks._harness import Comparison, main
from benchmarks.ops._functions import FunctionCase, measure
from burnlike.ops import swiglu


def inputs_of(rows: int, width: int) -> Callable[[torch.dtype], list[Tensor]]:
    """The gate and what it gates."""
    return lambda dtype: [torch.randn(rows, width).to(dtype).requires_grad_() for _ in range(2)]


def packed_inputs_of(rows: int, width: int) -> Callable[[torch.dtype], list[Tensor]]:
    """Both in one matrix."""
    return lambda dtype: [torch.randn(rows, 2 * width).to(dtype).requires_grad_()]


def _packed(x: Tensor) -> Tensor:
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


CASES = [
    case
    for rows, width, bar in ((2048, 1024, 2.5), (4096, 2816, 1.7), (4096, 4096, 2.5))
    for case in (
        FunctionCase(
            name=f"swiglu {rows} x {width}",
            ours=swiglu,
            theirs=lambda gate, up: F.silu(gate) * up,
            theirs_name="F.silu(gate) * up",
            inputs=inputs_of(rows, width),
            values_moved=8 * rows * width,  # gate, up and the result; gate, up and three gradients
            bar=bar,
        ),
        FunctionCase(
            name=f"swiglu, packed {rows} x {width}",
            ours=swiglu,
            theirs=_packed,
            theirs_name="F.silu(gate) * up",
            inputs=packed_inputs_of(rows, width),
            values_moved=8 * rows * width,
            bar=bar,
        ),
    )
]


def run(repeats: int) -> list[Comparison]:
    """Measure float32 and bfloat16."""
    return measure(CASES, repeats)


if __name__ == "__main__":
    main(__doc__ or "", run)
