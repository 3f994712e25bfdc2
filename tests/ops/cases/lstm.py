"""Random calls of `lstm_`. The other side is the op itself on contiguous copies: what it computes is compared with
torch's by `tests/ops/test_lstm.py`."""

import random

import torch
from torch import Tensor

from burnlike.ops import lstm_

from ..hostile import Arguments, Call, both, special_values
from ..op_case import FLOATS


@torch.no_grad()
def _steps(*tensors: Tensor) -> list[Tensor]:
    return list(lstm_(*tensors, reverse=True))


@torch.no_grad()
def _in_order(*tensors: Tensor) -> list[Tensor]:
    return list(lstm_(*(it.clone(memory_format=torch.contiguous_format) for it in tensors), reverse=True))


def random_lstm(chance: random.Random) -> Call:
    """Steps of some rows, from the last one on."""
    arguments, dtype = Arguments(chance), chance.choice(FLOATS)
    time, batch, width, size = chance.choice(((3, 5, 6, 4), (1, 1, 3, 1), (2, 0, 2, 3), (4, 9, 21, 17)))
    shapes = [(time, batch, width), (4 * size, width), (4 * size,), (4 * size, size), (batch, size), (batch, size)]
    places = [arguments.tensor(special_values(shape, dtype, chance)) for shape in shapes]
    places.append(arguments.tensor(torch.rand(time, batch) < 0.7))
    return both(arguments, "lstm_", _steps, _in_order, lambda it: ([it[place] for place in places], {}))
