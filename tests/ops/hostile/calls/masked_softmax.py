"""Random calls of `masked_softmax`."""

import random
from functools import partial

import torch

from burnlike import ops

from .. import FLOATS, SHAPES, Arguments, Call, both, special_values, with_gradients


def random_call(chance: random.Random) -> Call:
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
