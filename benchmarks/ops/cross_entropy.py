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


def _case(rows: int, classes: int) -> FunctionCase:
    return FunctionCase(
        name=f"cross_entropy {rows} x {classes}",
        ours=cross_entropy,
        theirs=F.cross_entropy,
        theirs_name="F.cross_entropy",
        inputs=_inputs(rows, classes),
        values_moved=3 * rows * classes,  # the logits in each pass, and their gradient
        bar=2.5,
    )


CASES = [_case(2048, 4096), _case(1024, 32000), _case(2048, 32000)]
# Rows that begin at no multiple of 16 bytes: of GPT-2's and BERT's classes.
DEVICE_CASES = [_case(512, 50257), _case(512, 30522)]


def run(repeats: int) -> list[Comparison]:
    """Measure float32 and bfloat16."""
    return measure(CASES, repeats)


if __name__ == "__main__":
    main(__doc__ or "", run)
