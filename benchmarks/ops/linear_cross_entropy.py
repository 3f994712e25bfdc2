"""Cross-entropy of a linear layer without its logits, forward and backward, against F.linear and F.cross_entropy, and
against torch's own function of parts (F.linear_cross_entropy with options, from torch 2.13 on)."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks._harness import Comparison, compare, main
from benchmarks.ops._functions import FunctionCase, both_passes, measure
from burnlike.ops import linear_cross_entropy


def _inputs(rows: int, classes: int, d: int) -> Callable[[torch.dtype], list[Tensor]]:
    return lambda dtype: [
        torch.randn(rows, d).to(dtype).requires_grad_(),
        (torch.randn(classes, d) / d**0.5).to(dtype).requires_grad_(),
        torch.randint(classes, (rows,)),
    ]


def _in_parts(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    return F.linear_cross_entropy(hidden, weight, targets, options=torch.nn.LinearCrossEntropyOptions())


_SIZES = ((2048, 4096, 384), (2048, 32000, 384))
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
    for rows, classes, d in _SIZES
]


def run(repeats: int) -> list[Comparison]:
    """Measure float32 and bfloat16."""
    results = measure(CASES, repeats)
    if not hasattr(torch.nn, "LinearCrossEntropyOptions"):
        return results
    for case in CASES:
        for dtype in (torch.float32, torch.bfloat16):
            inputs = case.inputs(dtype)
            name = f"{case.name} {str(dtype).removeprefix('torch.')}"
            ours, theirs = both_passes(case.ours, inputs), both_passes(_in_parts, inputs)
            results.append(
                compare(name, ours, theirs, theirs_name="F.linear_cross_entropy", bar=1.0, repeats=min(repeats, 5))
            )
    return results


if __name__ == "__main__":
    main(__doc__ or "", run)
