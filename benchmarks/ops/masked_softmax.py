"""Softmax of masked scores, forward and backward, against a product, masked_fill and softmax."""

import torch
from torch import Tensor

from benchmarks._harness import Comparison, main
from benchmarks.ops._functions import FunctionCase, measure
from burnlike.ops import masked_softmax

SCALE = 0.125


def _case(name: str, shape: tuple[int, ...], hidden: Tensor, causal: bool) -> FunctionCase:
    def inputs(dtype: torch.dtype) -> list[Tensor]:
        return [torch.randn(shape).to(dtype).requires_grad_(), hidden]

    def ours(scores: Tensor, hidden: Tensor) -> Tensor:
        return masked_softmax(scores, None if causal else hidden, SCALE, causal)

    def theirs(scores: Tensor, hidden: Tensor) -> Tensor:
        return (scores * SCALE).masked_fill(hidden, -torch.inf).softmax(-1)

    return FunctionCase(
        name=f"masked_softmax, {name} {' x '.join(map(str, shape))}",
        ours=ours,
        theirs=theirs,
        theirs_name="masked_fill, softmax",
        inputs=inputs,
        values_moved=5 * torch.Size(shape).numel(),  # scores and result; the result and two gradients
    )


def _padding(batch: int, columns: int) -> Tensor:
    lengths = torch.linspace(columns / 2, columns, batch).long()
    return (torch.arange(columns) >= lengths[:, None])[:, None, None]


CASES = [
    _case("padding", (8, 6, 256, 256), _padding(8, 256), causal=False),
    _case("causal", (8, 6, 256, 256), torch.ones(256, 256, dtype=torch.bool).triu(1), causal=True),
]


def run(repeats: int) -> list[Comparison]:
    """Measure float32 and bfloat16."""
    return measure(CASES, repeats)


if __name__ == "__main__":
    main(__doc__ or "", run)
