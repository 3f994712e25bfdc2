"""Random calls of `gradient_squares_`."""

import random

import torch

from burnlike import ops

from .. import FLOATS, SHAPES, Arguments, Call, both, pick, special_values


def random_call(chance: random.Random) -> Call:
    """`gradient_squares_`."""
    arguments = Arguments(chance)
    grads = arguments.tensors([special_values(chance.choice(SHAPES), chance.choice(FLOATS), chance) for _ in range(3)])
    squares = arguments.tensor(torch.zeros(3, dtype=torch.float64))
    return both(
        arguments,
        "gradient_squares_",
        ops.gradient_squares_,
        ops.gradient_squares_reference,
        lambda tensors: ((pick(tensors, grads), tensors[squares]), {}),
    )
