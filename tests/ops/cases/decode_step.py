"""Random calls of `decode_step`. The other side is the op itself on contiguous copies: what it computes is compared
with the model by `tests/models/test_native_steps.py`."""

import random

import torch
from torch import Tensor

from burnlike.ops.decode_step import DecodeForm, decode_step

from ..hostile import Arguments, Call, both

FORM = DecodeForm(2, 1, 4, 0, True, False, False, False, False, False, False, False, 0)
SHAPES = [(8,), (8, 8), (8, 4), (8, 4), (8, 8), (8,), (8, 12), (8, 12), (12, 8), (8,), (8, 5)]


@torch.no_grad()
def _step(
    x: Tensor, starts: Tensor, cosine: Tensor, sine: Tensor, weights: list[Tensor], caches: list[Tensor]
) -> Tensor:
    return decode_step(x, weights, caches, starts, (cosine, sine), 2, FORM, epsilon=1e-5)


@torch.no_grad()
def _in_order(
    x: Tensor, starts: Tensor, cosine: Tensor, sine: Tensor, weights: list[Tensor], caches: list[Tensor]
) -> Tensor:
    return _step(x, starts, cosine, sine, [it.clone(memory_format=torch.contiguous_format) for it in weights], caches)


def random_decode_step(chance: random.Random) -> Call:
    """A step of three rows through one block."""
    arguments = Arguments(chance)
    x, starts = arguments.tensor(torch.randn(3, 8)), arguments.tensor(torch.zeros(3, dtype=torch.int64))
    cosine, sine = arguments.tensor(torch.ones(6, 2)), arguments.tensor(torch.zeros(6, 2))
    weights = [arguments.tensor(torch.randn(shape)) for shape in SHAPES]
    caches = [arguments.tensor(torch.randn(3, 1, 6, 4)) for _ in range(2)]
    return both(
        arguments,
        "decode_step",
        _step,
        _in_order,
        lambda it: (
            (
                it[x],
                it[starts],
                it[cosine],
                it[sine],
                [it[place] for place in weights],
                [it[place] for place in caches],
            ),
            {},
        ),
    )
