"""Attention, both passes in halves and forward alone, against torch.nn.functional.scaled_dot_product_attention."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks._harness import Comparison, compare, main
from benchmarks.ops._functions import FunctionCase, measure
from burnlike.ops import attention

HEADS, WIDTH = 6, 64


def _inputs(batch: int, length: int) -> Callable[[torch.dtype], list[Tensor]]:
    return lambda dtype: [
        torch.randn(batch, length, HEADS, WIDTH).to(dtype).transpose(1, 2).detach().requires_grad_() for _ in range(3)
    ]


CAUSAL = [
    FunctionCase(
        name=f"attention {batch} x {HEADS} x {length} x {WIDTH}",
        ours=lambda query, key, value: attention(query, key, value, causal=True),
        theirs=lambda query, key, value: F.scaled_dot_product_attention(query, key, value, is_causal=True),
        theirs_name="F.sdpa",
        inputs=_inputs(batch, length),
        values_moved=12 * batch * HEADS * length * WIDTH,  # q, k, v, o; these, the gradient of o and three more
        bar=2.0,
    )
    for batch, length in ((8, 64), (8, 128), (8, 256), (4, 512), (2, 1024), (1, 2048))
]


def _padded(batch: int, length: int) -> FunctionCase:
    mask = (torch.arange(length) < torch.linspace(length / 2, length, batch)[:, None])[:, None, None]
    return FunctionCase(
        name=f"attention, padding, {batch} x {HEADS} x {length} x {WIDTH}",
        ours=lambda query, key, value: attention(query, key, value, mask),
        theirs=lambda query, key, value: F.scaled_dot_product_attention(query, key, value, mask),
        theirs_name="F.sdpa",
        inputs=_inputs(batch, length),
        values_moved=12 * batch * HEADS * length * WIDTH,
        bar=2.0,
    )


def _forward(case: FunctionCase, repeats: int) -> Comparison:
    inputs = [tensor.detach() for tensor in case.inputs(torch.bfloat16)]
    return compare(
        f"{case.name}, forward, bfloat16",
        lambda: case.ours(*inputs),
        lambda: case.theirs(*inputs),
        theirs_name=case.theirs_name,
        bar=case.bar,
        repeats=repeats,
    )


def run(repeats: int) -> list[Comparison]:
    """Measure both passes in bfloat16 and float16, then the forward pass in bfloat16."""
    cases = [*CAUSAL, _padded(8, 128), _padded(4, 512)]
    return measure(cases, repeats, (torch.bfloat16, torch.float16)) + [_forward(case, repeats) for case in cases]


if __name__ == "__main__":
    main(__doc__ or "", run)
