"""Random calls of `layer_norm`."""

import random

import torch

from burnlike import ops

from .. import FLOATS, SHAPES, Arguments, Call, both, special_values, with_gradients


def random_call(chance: random.Random) -> Call:
    """`layer_norm`, forward and backward."""
    arguments, dtype = Arguments(chance), chance.choice(FLOATS)
    shape = chance.choice([shape for shape in SHAPES if shape])
    weight_dtype = chance.choice((dtype, torch.float32))
    x = arguments.tensor(special_values(shape, dtype, chance))
    gamma = arguments.tensor(special_values(shape[-1:], weight_dtype, chance))
    beta = arguments.tensor(special_values(shape[-1:], weight_dtype, chance)) if chance.random() < 0.7 else None
    epsilon = arguments.scalar(1e-5)
    return both(
        arguments,
        "layer_norm",
        with_gradients(ops.layer_norm),
        with_gradients(ops.layer_norm_reference),
        lambda tensors: ((tensors[x], tensors[gamma], None if beta is None else tensors[beta], epsilon), {}),
    )
