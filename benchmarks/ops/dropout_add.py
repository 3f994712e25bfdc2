"""residual + dropout(x), forward and backward, against dropout and a sum."""

import torch.nn.functional as F

from benchmarks._harness import Comparison, main
from benchmarks.ops._functions import FunctionCase, measure
from benchmarks.ops.swiglu import inputs_of
from burnlike.ops import dropout_add

PROBABILITY = 0.1

CASES = [
    FunctionCase(
        name=f"dropout_add {rows} x {width}",
        ours=lambda x, residual: dropout_add(x, residual, PROBABILITY),
        theirs=lambda x, residual: residual + F.dropout(x, PROBABILITY),
        theirs_name="F.dropout(x) + y",
        inputs=inputs_of(rows, width),
        values_moved=5 * rows * width,  # x, the residual and the result; the gradients of the result and of x
        bar=3.0,
    )
    for rows, width in ((2048, 384), (4096, 1024))
]


def run(repeats: int) -> list[Comparison]:
    """Measure float32 and bfloat16."""
    return measure(CASES, repeats)


if __name__ == "__main__":
    main(__doc__ or "", run)
