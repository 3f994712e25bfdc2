"""A linear layer in float32, forward and backward: products of oneDNN where the machine gains, beside torch's."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks._harness import Comparison, main
from benchmarks.ops._functions import FunctionCase, measure
from burnlike.ops import linear
from burnlike.ops.linear import machine_gains


def _inputs(rows: int, d_input: int, d_output: int) -> Callable[[torch.dtype], list[Tensor]]:
    return lambda dtype: [
        torch.randn(rows, d_input).to(dtype).requires_grad_(),
        (torch.randn(d_output, d_input) / d_input**0.5).to(dtype).requires_grad_(),
        torch.randn(d_output).to(dtype).requires_grad_(),
    ]


CASES = [
    FunctionCase(
        name=f"linear {rows} x {d_input} x {d_output}",
        ours=linear,
        theirs=functional.linear,
        theirs_name="F.linear",
        inputs=_inputs(rows, d_input, d_output),
        values_moved=2 * rows * (d_input + d_output) + 2 * d_input * d_output,
        bar=1.5 if machine_gains(torch.empty(0)) else 0.97,
    )
    for rows, d_input, d_output in ((32, 512, 512), (2048, 384, 384), (2048, 384, 2048), (2048, 1024, 384))
]


def run(repeats: int) -> list[Comparison]:
    """Measure float32."""
    return measure(CASES, repeats, (torch.float32,))


if __name__ == "__main__":
    main(__doc__ or "", run)
