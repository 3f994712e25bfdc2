"""Layer normalization, forward and backward, against torch.nn.functional.layer_norm."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks._harness import Comparison, main
from benchmarks.ops._functions import FunctionCase, measure
from burnlike.ops import layer_norm

EPSILON = 1e-5


def _inputs(rows: int, width: int) -> Callable[[torch.dtype], list[Tensor]]:
    return lambda dtype: [torch.randn(*size).to(dtype).requires_grad_() for size in ((rows, width), (width,), (width,))]


CASES = [
    FunctionCase(
        name=f"layer_norm {rows} x {width}",
        ours=lambda x, gamma, beta: layer_norm(x, gamma, beta, EPSILON),
        theirs=lambda x, gamma, beta: F.layer_norm(x, gamma.shape, gamma, beta, EPSILON),
        theirs_name="F.layer_norm",
        inputs=_inputs(rows, width),
        values_moved=5 * rows * width,  # x and y; x, the gradient of y and that of x
        bar=1.0,
    )
    for rows, width in ((2048, 384), (4096, 1024))
]


def run(repeats: int) -> list[Comparison]:
    """Measure float32 and bfloat16."""
    return measure(CASES, repeats)


if __name__ == "__main__":
    main(__doc__ or "", run)
