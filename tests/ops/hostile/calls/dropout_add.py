"""Random calls of `dropout_add`."""

import random

import torch
from torch import Tensor

from burnlike import ops

from .. import FLOATS, SHAPES, Arguments, Call, both, special_values, with_gradients


def random_call(chance: random.Random) -> Call:
    """`dropout_add`, forward and backward."""
    arguments, dtype = Arguments(chance), chance.choice(FLOATS)
    shape = chance.choice(SHAPES)
    x = arguments.tensor(special_values(shape, dtype, chance))
    residual = arguments.tensor(special_values(shape, dtype, chance))
    seed = arguments.tensor(torch.tensor(chance.randrange(-(2**63), 2**63)))
    probability = arguments.scalar(0.4)

    def native(x: Tensor, residual: Tensor, seed: Tensor) -> Tensor:
        return ops.dropout_add(x, residual, probability, seed=seed)

    def reference(x: Tensor, residual: Tensor, seed: Tensor) -> Tensor:
        return ops.dropout_add_reference(x, residual, probability, seed) if probability > 0 else residual + x

    return both(
        arguments,
        "dropout_add",
        with_gradients(native),
        with_gradients(reference),
        lambda tensors: ((tensors[x], tensors[residual], tensors[seed]), {}),
    )
