"""Random calls of `rms_norm`."""

import random

import torch

from burnlike import ops

from .. import FLOATS, SHAPES, Arguments, Call, both, special_values, with_gradients


def random_call(chance: random.Random) -> Call:
    """`rms_norm`, forward and backward."""
    arguments, dtype = Arguments(chance), chance.choice(FLOATS)
    shape = chance.choice([shape for shape in SHAPES if shape])
    x = arguments.tensor(special_values(shape, dtype, chance))
    gamma = arguments.tensor(special_values(shape[-1:], chance.choice((dtype, torch.float32)), chance))
    epsilon = arguments.scalar(1e-5)
    return both(
        arguments,
        "rms_norm",
        with_gradients(ops.rms_norm),
        with_gradients(ops.rms_norm_reference),
        lambda tensors: ((tensors[x], tensors[gamma], epsilon), {}),
    )
