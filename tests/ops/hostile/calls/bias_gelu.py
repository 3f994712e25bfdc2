"""Random calls of `bias_gelu`."""

import random

import torch
from torch import Tensor

from burnlike import ops
from burnlike.ops._arguments import Approximate

from .. import FLOATS, SHAPES, Arguments, Call, both, special_values, with_gradients

FORMS: tuple[Approximate, ...] = ("none", "tanh")


def random_call(chance: random.Random) -> Call:
    """`bias_gelu`, forward and backward."""
    arguments, dtype = Arguments(chance), chance.choice(FLOATS)
    shape = chance.choice([shape for shape in SHAPES if shape])
    x = arguments.tensor(special_values(shape, dtype, chance))
    bias = arguments.tensor(special_values(shape[-1:], chance.choice((dtype, torch.float32)), chance))
    approximate = chance.choice(FORMS)

    def native(x: Tensor, bias: Tensor) -> Tensor:
        return ops.bias_gelu(x, bias, approximate)

    def reference(x: Tensor, bias: Tensor) -> Tensor:
        # In float64, as torch's gelu of an infinite float32 is NaN on some CPUs.
        return ops.bias_gelu_reference(x.double(), bias.double(), approximate).to(x.dtype)

    return both(
        arguments,
        "bias_gelu",
        with_gradients(native),
        with_gradients(reference),
        lambda tensors: ((tensors[x], tensors[bias]), {}),
    )
