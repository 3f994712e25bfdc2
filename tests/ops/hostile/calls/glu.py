"""Random calls of gated linear units."""

import random

from burnlike import ops

from .. import FLOATS, SHAPES, Arguments, Call, both, special_values, with_gradients


def random_call(chance: random.Random) -> Call:
    """One of them, forward and backward, of two tensors or one."""
    arguments, dtype = Arguments(chance), chance.choice(FLOATS)
    shape = chance.choice(SHAPES)
    if shape and chance.random() < 0.5:
        places = [arguments.tensor(special_values((*shape[:-1], 2 * shape[-1]), dtype, chance))]
    else:
        places = [arguments.tensor(special_values(shape, dtype, chance)) for _ in range(2)]
    return both(
        arguments,
        "swiglu",
        with_gradients(ops.swiglu),
        with_gradients(ops.swiglu_reference),
        lambda tensors: ([tensors[place] for place in places], {}),
    )
