"""gelu(x + bias), forward and backward, against a sum and gelu; and behind a product, whose bias torch adds with it."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks._harness import Comparison, main
from benchmarks.ops._functions import FunctionCase, measure
from burnlike.ops import bias_gelu
from burnlike.ops._arguments import Approximate


def _inputs(*sizes: tuple[int, ...]) -> Callable[[torch.dtype], list[Tensor]]:
    return lambda dtype: [torch.randn(*size).to(dtype).requires_grad_() for size in sizes]


def _case(rows: int, width: int, approximate: Approximate) -> FunctionCase:
    return FunctionCase(
        name=f"bias_gelu, {approximate} {rows} x {width}",
        ours=lambda x, bias: bias_gelu(x, bias, approximate),
        theirs=lambda x, bias: F.gelu(x + bias, approximate=approximate),
        theirs_name="F.gelu(x + bias)",
        inputs=_inputs((rows, width), (width,)),
        values_moved=5 * rows * width,  # x and the result; x and two gradients
    )


def _behind_a_product(rows: int, d_input: int, width: int) -> FunctionCase:
    return FunctionCase(
        name=f"linear and bias_gelu {rows} x {d_input} x {width}",
        ours=lambda x, weight, bias: bias_gelu(F.linear(x, weight), bias),
        theirs=lambda x, weight, bias: F.gelu(F.linear(x, weight, bias)),
        theirs_name="F.gelu(F.linear(x, weight, bias))",
        inputs=_inputs((rows, d_input), (width, d_input), (width,)),
        values_moved=5 * rows * width,
    )


CASES = [_case(2048, 1536, "none"), _case(2048, 1536, "tanh")]
DEVICE_CASES = [_case(2048, 768, "none")]


def run(repeats: int) -> list[Comparison]:
    """Measure float32 and bfloat16."""
    return measure([*CASES, _behind_a_product(2048, 384, 1536)], repeats)


if __name__ == "__main__":
    main(__doc__ or "", run)
