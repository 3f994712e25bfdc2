"""Random calls of `lstm_`. The other side is the op itself on contiguous copies: what it computes is compared with
torch's by `tests/ops/test_lstm.py`."""

import random

import torch
from torch import Tensor

from burnlike.ops import lstm_

from ..hostile import Arguments, Call, both, special_values
from ..op_case import FLOATS


@torch.no_grad()
def _steps(gates: Tensor, weight: Tensor, hidden: Tensor, cell: Tensor, kept: Tensor) -> list[Tensor]:
    return list(lstm_(gates, weight, hidden, cell, kept, True))


@torch.no_grad()
def _in_order(gates: Tensor, *others: Tensor) -> list[Tensor]:
    copies = [it.clone(memory_format=torch.contiguous_format) for it in (gates, *others)]
    results = list(lstm_(*copies, reverse=True))
    gates.copy_(copies[0])
    return results


def random_lstm(chance: random.Random) -> Call:
    """Steps of some rows, from the last one on."""
    arguments, dtype = Arguments(chance), chance.choice(FLOATS)
    time, batch, size = chance.choice(((3, 5, 4), (1, 1, 1), (2, 0, 3), (4, 9, 17)))
    shapes = [(time, batch, 4 * size), (4 * size, size), (batch, size), (batch, size)]
    places = [arguments.tensor(special_values(shape, dtype, chance)) for shape in shapes]
    places.append(arguments.tensor(torch.rand(time, batch) < 0.7))
    return both(arguments, "lstm_", _steps, _in_order, lambda it: ([it[place] for place in places], {}))
