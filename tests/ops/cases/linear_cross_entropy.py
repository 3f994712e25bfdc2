"""Random calls of `linear_cross_entropy`, which hands parts of its own to the kernels of `cross_entropy`."""

import random

import torch

from burnlike import ops

from ..hostile import Arguments, Call, both, special_values, with_gradients
from ..op_case import FLOATS

SHAPES = ((3, 5, 4), (1, 1, 1), (0, 4, 2), (70, 9, 3), (2, 1100, 8))


def random_linear_cross_entropy(chance: random.Random) -> Call:
    """`linear_cross_entropy`, forward and backward."""
    arguments, dtype = Arguments(chance), chance.choice(FLOATS)
    rows, classes, width = chance.choice(SHAPES)
    hidden = arguments.tensor(special_values((rows, width), dtype, chance))
    weight = arguments.tensor(torch.randn(classes, width).to(dtype))
    is_biased = chance.random() < 0.5
    bias = arguments.tensor(torch.randn(classes).to(dtype)) if is_biased else 0
    classes_of_rows = torch.randint(classes, (rows,))
    if rows and chance.random() < 0.3:
        classes_of_rows[chance.randrange(rows)] = -100
    if rows and chance.random() < 0.1:
        classes_of_rows[chance.randrange(rows)] = chance.choice((-1, classes, 2**62, -(2**63)))
        arguments.marks.append("no class")
    targets = arguments.tensor(classes_of_rows)
    options = (
        -100,
        0.0,
        chance.choice((0.0, 1e-3)),
        chance.choice((None, 5.0)),
        chance.choice(("mean", "sum", "none")),
    )
    return both(
        arguments,
        "linear_cross_entropy",
        with_gradients(ops.linear_cross_entropy),
        with_gradients(ops.linear_cross_entropy_reference),
        lambda tensors: (
            (tensors[hidden], tensors[weight], tensors[targets], tensors[bias] if is_biased else None, *options),
            {},
        ),
    )
