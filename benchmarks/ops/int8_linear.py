"""A linear layer whose products are of numbers in 8 bits, forward and backward, beside torch's in bfloat16.

The processor's VNNI multiplies bytes at twice the rate of bfloat16; the rest is rounding both sides of each product.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks._harness import Comparison, main
from benchmarks.ops._functions import FunctionCase, measure
from burnlike.ops import int8_linear


def _inputs(rows: int, d_input: int, d_output: int) -> Callable[[torch.dtype], list[Tensor]]:
    return lambda dtype: [
        torch.randn(rows, d_input).to(dtype).requires_grad_(),
        (torch.randn(d_output, d_input) / d_input**0.5).to(dtype).requires_grad_(),
    ]


CASES = [
    FunctionCase(
        name=f"int8_linear {rows} x {d_input} x {d_output}",
        ours=int8_linear,
        theirs=functional.linear,
        theirs_name="F.linear",
        inputs=_inputs(rows, d_input, d_output),
        values_moved=2 * rows * (d_input + d_output) + 2 * d_input * d_output,
        bar=1.4,
    )
    for rows, d_input, d_output in ((2048, 384, 384), (2048, 384, 1024), (2048, 1024, 384), (1024, 384, 1536))
]


def run(repeats: int) -> list[Comparison]:
    """Measure bfloat16."""
    return measure(CASES, repeats, (torch.bfloat16,))


if __name__ == "__main__":
    main(__doc__ or "", run)
