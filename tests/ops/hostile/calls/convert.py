"""Random calls of `convert_`."""

import random

import torch

from burnlike import ops

from .. import FLOATS, SHAPES, Arguments, Call, both, pick, special_values


def random_call(chance: random.Random) -> Call:
    """`convert_`."""
    arguments = Arguments(chance)
    shapes = [chance.choice(SHAPES) for _ in range(3)]
    targets = arguments.tensors([torch.zeros(shape, dtype=chance.choice(FLOATS)) for shape in shapes])
    sources = arguments.tensors([special_values(shape, chance.choice(FLOATS), chance) for shape in shapes])
    lost = arguments.tensor(torch.zeros(3, dtype=torch.int32))
    return both(
        arguments,
        "convert_",
        ops.convert_,
        ops.convert_reference,
        lambda tensors: ((pick(tensors, targets), pick(tensors, sources), tensors[lost]), {}),
    )
