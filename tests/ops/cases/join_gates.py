"""Random calls of `join_gates`."""

import random

from torch import Tensor

from burnlike import ops
from burnlike.ops.join_gates import join_gates_reference

from ..hostile import Arguments, Call, both, special_values, with_gradients
from ..op_case import FLOATS


def _native(*parts: Tensor) -> list[Tensor]:
    return ops.join_gates(parts, 2)


def _reference(*parts: Tensor) -> list[Tensor]:
    return join_gates_reference(parts, 2)


def random_join_gates(chance: random.Random) -> Call:
    """`join_gates` of two gates' matrices and vectors, forward and backward."""
    arguments, dtype = Arguments(chance), chance.choice(FLOATS)
    rows, columns = chance.choice(((3, 5), (1, 1), (0, 4), (16, 33)))
    shapes = [(rows, columns)] * 2 + [(columns,)] * 2
    places = arguments.tensors([special_values(shape, dtype, chance) for shape in shapes])
    return both(
        arguments,
        "join_gates",
        with_gradients(_native),
        with_gradients(_reference),
        lambda it: ([it[place] for place in places], {}),
    )
