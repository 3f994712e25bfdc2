"""A linear layer with an adapter, forward and backward, against a layer that computes with the sum of its weights."""

from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks._harness import Comparison, main
from benchmarks.ops._functions import FunctionCase, measure
from burnlike.ops import lora_linear, lora_linear_reference


def _inputs(rows: int, d_input: int, d_output: int, rank: int) -> Callable[[torch.dtype], list[Tensor]]:
    return lambda dtype: [
        torch.randn(rows, d_input).to(dtype).requires_grad_(),
        (torch.randn(d_input, d_output) / d_input**0.5).to(dtype),
        torch.randn(d_input, rank).to(dtype).requires_grad_(),
        torch.randn(rank, d_output).to(dtype).requires_grad_(),
        torch.randn(d_output).to(dtype),
    ]


CASES = [
    FunctionCase(
        name=f"lora_linear {rows} x {d_input} x {d_output}, rank {rank}",
        ours=lambda x, weight, a, b, bias: lora_linear(x, weight, a, b, bias, 2.0),
        theirs=lambda x, weight, a, b, bias: lora_linear_reference(x, weight, a, b, bias, 2.0),
        theirs_name="F.linear of the sum",
        inputs=_inputs(rows, d_input, d_output, rank),
        values_moved=2 * rows * (d_input + d_output),  # x, y and their gradients
        bar=1.05,
    )
    for rows, d_input, d_output, rank in ((2048, 384, 384, 8), (2048, 384, 1024, 16), (2048, 1024, 1024, 64))
]


def run(repeats: int) -> list[Comparison]:
    """Measure float32 and bfloat16."""
    return measure(CASES, repeats)


if __name__ == "__main__":
    main(__doc__ or "", run)
