"""Random calls of `add_rms_norm` and `add_layer_norm`."""

import random

import torch

from burnlike import ops

from .. import FLOATS, SHAPES, Arguments, Call, both, special_values, with_gradients

NORMS = {
    "add_rms_norm": (ops.add_rms_norm, ops.add_rms_norm_reference, 1),
    "add_layer_norm": (ops.add_layer_norm, ops.add_layer_norm_reference, 2),
}


def random_call(chance: random.Random) -> Call:
    """One of them, forward and backward."""
    arguments, dtype = Arguments(chance), chance.choice(FLOATS)
    name = chance.choice(list(NORMS))
    native, reference, weights = NORMS[name]
    shape = chance.choice([shape for shape in SHAPES if shape])
    weight_dtype = chance.choice((dtype, torch.float32))
    sizes = [(shape, dtype)] * 2 + [(shape[-1:], weight_dtype)] * weights
    numbers = [arguments.tensor(special_values(*size, chance)) for size in sizes]
    epsilon = arguments.scalar(1e-5)
    return both(
        arguments,
        name,
        with_gradients(native),
        with_gradients(reference),
        lambda tensors: ((*(tensors[number] for number in numbers), epsilon), {}),
    )
