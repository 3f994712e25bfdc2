"""Random calls of gated linear units."""

import random

from torch import Tensor

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
    op, approximate = chance.choice((("swiglu", None), ("geglu", "none"), ("geglu", "tanh")))
    more = [] if approximate is None else [approximate]

    def native(gate: Tensor, up: Tensor | None = None) -> Tensor:
        return getattr(ops, op)(gate, up, *more)

    def reference(gate: Tensor, up: Tensor | None = None) -> Tensor:
        # In float64, as torch's gelu of an infinite float32 is NaN on some CPUs.
        values = getattr(ops, f"{op}_reference")(gate.double(), None if up is None else up.double(), *more)
        return values.to(gate.dtype)

    return both(
        arguments,
        op,
        with_gradients(native),
        with_gradients(reference),
        lambda tensors: ([tensors[place] for place in places], {}),
    )
