"""Random calls of `grouped_convolution`."""

import random

import torch

from burnlike import ops

from ..hostile import Arguments, Call, both, special_values, with_gradients


def random_grouped_convolution(chance: random.Random) -> Call:
    """`grouped_convolution`, forward and backward."""
    arguments, dtype = Arguments(chance), chance.choice((torch.float32, torch.bfloat16))
    channels, group = chance.choice(((16, 1), (17, 1), (40, 8), (96, 24), (36, 4), (32, 16), (22, 2)))
    images, height, width, kernel = chance.choice(((2, 5, 7, 3), (1, 1, 1, 1), (0, 4, 4, 3), (1, 9, 2, 7)))
    stride, padding = chance.choice((1, 2, 3)), kernel // 2 + chance.choice((0, 1))
    x = arguments.tensor(special_values((images, height, width, channels), dtype, chance))
    weight = arguments.tensor(torch.randn(channels, group, kernel, kernel).to(dtype))
    bias = arguments.tensor(torch.randn(channels).to(dtype)) if chance.random() < 0.5 else None
    return both(
        arguments,
        "grouped_convolution",
        with_gradients(ops.grouped_convolution),
        with_gradients(ops.grouped_convolution_reference),
        lambda it: ((it[x], it[weight], None if bias is None else it[bias], stride, padding), {}),
    )
