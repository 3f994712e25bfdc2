"""Cases of `masked_softmax`."""

import random
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from burnlike import ops
from burnlike.ops import masked_softmax, masked_softmax_reference

from ..hostile import SHAPES, Arguments, Call, both, special_values, with_gradients
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


def random_masked_softmax(chance: random.Random) -> Call:
    """`masked_softmax`, forward and backward, with and without a mask."""
    arguments, dtype = Arguments(chance), chance.choice(FLOATS)
    shape = chance.choice([shape for shape in SHAPES if shape])
    places = [arguments.tensor(special_values(shape, dtype, chance))]
    if chance.random() < 0.7:
        sizes = [size if chance.random() < 0.6 else 1 for size in shape]
        places.append(arguments.tensor(torch.rand(sizes[chance.randrange(len(sizes)) :]) < 0.4))
    options = {"scale": arguments.scalar(0.5), "causal": len(shape) > 1 and chance.random() < 0.3}
    return both(
        arguments,
        "masked_softmax",
        with_gradients(partial(ops.masked_softmax, **options)),
        with_gradients(partial(ops.masked_softmax_reference, **options)),
        lambda tensors: ([tensors[place] for place in places], {}),
    )
