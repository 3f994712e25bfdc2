"""Cross-entropy, forward and backward, against torch.nn.functional.cross_entropy."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks._harness import Comparison, main
from benchmarks.ops._functions import FunctionCase, measure
from burnlike.ops import cross_entropy


def _inputs(rows: int, classes: int) -> Callable[[torch.dtype], list[Tensor]]:
    return lambda dtype: [
        torch.randn(rows, classes).to(dtype).requires_grad_(),
        torch.randint(classes, (rows,)),
    ]


CASES = [
    FunctionCase(
        name=f"cross_entropy {rows} x {classes}",
        ours=cross_entropy,
        theirs=F.cross_entropy,
        theirs_name="F.cross_entropy",
        inputs=_inputs(rows, classes),
        values_moved=3 * rows * classes,  # the logits in each pass, and their gradient
        bar=2.5,
    )
    for rows, classes in ((2048, 4096), (2048, 32000))
]


def run(repeats: int) -> list[Comparison]:
    """Measure float32 and bfloat16."""
    return measure(CASES, repeats)


if __name__ == "__main__":
    main(__doc__ or "", run)
