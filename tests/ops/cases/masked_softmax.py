"""Cases of `masked_softmax`."""

from collections.abc import Callable

import torch
from torch import Tensor

from burnlike.ops import masked_softmax, masked_softmax_reference

from ..op_case import FLOATS, ROWS, OpCase, dtype_name

Mask = Callable[[], Tensor]


def _case(
    name: str,
    dtype: torch.dtype,
    make_scores: Callable[[torch.dtype], Tensor],
    mask: Mask | None = None,
    scale: float = 1.0,
    causal: bool = False,
) -> OpCase:
    def inputs() -> list[Tensor]:
        torch.manual_seed(1)
        scores = make_scores(dtype)
        return [scores] if mask is None else [scores, mask()]

    return OpCase(
        name=f"masked_softmax-{name}-{dtype_name(dtype)}",
        raw=torch.ops.burnlike.masked_softmax.default,
        native=lambda scores, mask=None: [masked_softmax(scores, mask, scale, causal)],
        reference=lambda scores, mask=None: [masked_softmax_reference(scores, mask, scale, causal)],
        inputs=inputs,
        raw_arguments=lambda tensors: (tensors[0], None if mask is None else tensors[1], scale, causal),
        differentiable=True,
        dtype=dtype,
    )


def _random(*shape: int) -> Tensor:
    return torch.rand(shape) < 0.4


# The shape of scores, a mask that is broadcast to them, and whether it is causal.
MASKED: dict[str, tuple[tuple[int, ...], Mask | None, bool]] = {
    "odd-same": ((2, 3, 5, 37), lambda: _random(2, 3, 5, 37), False),
    "padding": ((3, 2, 5, 72), lambda: _random(3, 1, 1, 72), False),
    "one-for-all": ((3, 2, 5, 33), lambda: _random(33), False),
    "of-queries": ((2, 3, 4, 16), lambda: _random(2, 1, 4, 1), False),
    "transposed": ((2, 9, 40), lambda: _random(40, 9).t(), False),
    "every-second": ((4, 40), lambda: _random(4, 80)[:, ::2], False),
    "expanded": ((5, 2, 3, 24), lambda: _random(1, 2, 1, 24).expand(5, 2, 3, 24), False),
    "wide": ((6, 1024), lambda: _random(6, 1024), False),
    "odd-causal": ((2, 7, 7), None, True),
    "later-rows": ((2, 3, 70), None, True),
    "more-rows": ((2, 40, 9), None, True),
    "causal-padding": ((2, 2, 64, 64), lambda: _random(2, 1, 1, 64), True),
}

CASES = [
    *(_case(name, dtype, make) for name, make in ROWS.items() for dtype in FLOATS),
    *(
        _case(name, dtype, lambda dtype, shape=shape: torch.randn(shape, dtype=dtype), mask, 0.7, causal)
        for name, (shape, mask, causal) in MASKED.items()
        for dtype in FLOATS
    ),
]
