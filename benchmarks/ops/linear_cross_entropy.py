"""Cross-entropy of a linear layer without its logits, forward and backward, against F.linear and F.cross_entropy."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks._harness import Comparison, main
from benchmarks.ops._functions import FunctionCase, measure
from burnlike.ops import linear_cross_entropy


def _inputs(rows: int, classes: int, d: int) -> Callable[[torch.dtype], list[Tensor]]:
    return lambda dtype: [
        torch.randn(rows, d).to(dtype).requires_grad_(),
        (torch.randn(classes, d) / d**0.5).to(dtype).requires_grad_(),
        torch.randint(classes, (rows,)),
    ]


CASES = [
    FunctionCase(
        name=f"linear_cross_entropy {rows} x {d} x {classes}",
        ours=linear_cross_entropy,
        theirs=lambda hidden, weight, targets: F.cross_entropy(F.linear(hidden, weight), targets),
        theirs_name="F.linear, F.cross_entropy",
        inputs=_inputs(rows, classes, d),
        values_moved=2 * (rows + classes) * d,  # hidden and weight, and their gradients
        bar=1.0,
    )
    for rows, classes, d in ((2048, 4096, 384), (2048, 32000, 384))
]


def run(repeats: int) -> list[Comparison]:
    """Measure float32 and bfloat16."""
    return measure(CASES, repeats)


if __name__ == "__main__":
    main(__doc__ or "", run)
