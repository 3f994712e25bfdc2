"""Causal attention, forward and backward in halves, against torch.nn.functional.scaled_dot_product_attention."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks._harness import Comparison, main
from benchmarks.ops._functions import FunctionCase, measure
from burnlike.ops import attention

HEADS, WIDTH = 6, 64


def _inputs(batch: int, length: int) -> Callable[[torch.dtype], list[Tensor]]:
    return lambda dtype: [
        torch.randn(batch, length, HEADS, WIDTH).to(dtype).transpose(1, 2).detach().requires_grad_() for _ in range(3)
    ]


CASES = [
    FunctionCase(
        name=f"attention {batch} x {HEADS} x {length} x {WIDTH}",
        ours=lambda query, key, value: attention(query, key, value, causal=True),
        theirs=lambda query, key, value: F.scaled_dot_product_attention(query, key, value, is_causal=True),
        theirs_name="F.sdpa",
        inputs=_inputs(batch, length),
        values_moved=12 * batch * HEADS * length * WIDTH,  # q, k, v, o; these, the gradient of o and three more
        bar=1.0,
    )
    for batch, length in ((8, 64), (8, 128), (8, 256), (4, 512), (2, 1024), (1, 2048))
]


def run(repeats: int) -> list[Comparison]:
    """Measure bfloat16 and float16."""
    return measure(CASES, repeats, (torch.bfloat16, torch.float16))


if __name__ == "__main__":
    main(__doc__ or "", run)
