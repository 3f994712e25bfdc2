"""Random calls of `convolution_3x3`."""

import random

import torch
from torch import Tensor

from burnlike import ops

from ..hostile import Arguments, Call, both, with_gradients


def _reference(x: Tensor, weight: Tensor, transposed: bool) -> Tensor:
    """In float32, and rounded once: where a CPU has no products of bfloat16, torch's own round in between."""
    return ops.convolution_3x3_reference(x.float(), weight.float(), transposed).to(x.dtype)


def random_convolution_3x3(chance: random.Random) -> Call:
    """`convolution_3x3`, forward and backward, of finite values: others reach further by tiles."""
    arguments, transposed = Arguments(chance), chance.random() < 0.5
    channels = chance.choice((16, 32, 48, 80))
    channels_in = chance.choice((16, 64))
    images, height, width = chance.choice(((2, 5, 7), (1, 1, 1), (0, 4, 4), (3, 8, 8), (1, 13, 2)))
    dtype = chance.choice((torch.float32, torch.bfloat16))
    x = arguments.tensor(torch.randn(images, height, width, channels if transposed else channels_in).to(dtype))
    weight = arguments.tensor((torch.randn(channels, channels_in, 3, 3) / channels_in).to(dtype))
    return both(
        arguments,
        "convolution_3x3",
        with_gradients(ops.convolution_3x3),
        with_gradients(_reference),
        lambda tensors: ((tensors[x], tensors[weight], transposed), {}),
    )
