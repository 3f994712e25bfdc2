"""Random calls of `cross_entropy`."""

import random

import torch

from burnlike import ops

from .. import FLOATS, Arguments, Call, both, special_values, with_gradients

SHAPES = ((3, 5), (1, 1), (0, 4), (31, 9), (2, 1100))


def random_call(chance: random.Random) -> Call:
    """`cross_entropy`, forward and backward."""
    arguments, dtype = Arguments(chance), chance.choice(FLOATS)
    rows, classes = chance.choice(SHAPES)
    values = special_values((rows, classes), dtype, chance)
    # The sum of distances to the others overflows, in another order than torch's sum of logarithms.
    is_huge = bool((values.abs() > 1e30).any())
    logits = arguments.tensor(values)
    classes_of_rows = torch.randint(classes, (rows,))
    if rows and chance.random() < 0.3:
        classes_of_rows[chance.randrange(rows)] = -100
    if rows and chance.random() < 0.1:
        classes_of_rows[chance.randrange(rows)] = chance.choice((-1, classes, 2**62, -(2**63)))
        arguments.marks.append("no class")
    targets = arguments.tensor(classes_of_rows)
    smoothing = 0.0 if is_huge else chance.choice((0.0, arguments.scalar(0.1)))
    z_loss = chance.choice((0.0, arguments.scalar(1e-3)))
    soft_cap = chance.choice((None, arguments.scalar(5.0)))
    reduction = chance.choice(("none", "mean", "sum"))
    is_weighted = chance.random() < 0.5
    weight = arguments.tensor(torch.rand(classes).to(chance.choice((dtype, torch.float32)))) if is_weighted else 0
    return both(
        arguments,
        "cross_entropy",
        with_gradients(ops.cross_entropy),
        with_gradients(ops.cross_entropy_reference),
        lambda tensors: (
            (
                *(tensors[logits], tensors[targets], tensors[weight] if is_weighted else None),
                *(-100, smoothing, z_loss, soft_cap, reduction),
            ),
            {},
        ),
    )
