"""Random calls of `int8_linear`."""

import random

import torch
from torch import Tensor

from burnlike import ops

from ..hostile import Arguments, Call, both, special_values, with_gradients


def _reference(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return ops.int8_linear_reference(x, weight, bias, x.dtype == torch.bfloat16)


def random_int8_linear(chance: random.Random) -> Call:
    """`int8_linear` of matrices, forward and backward."""
    arguments, dtype = Arguments(chance), chance.choice((torch.float32, torch.bfloat16))
    rows, outputs, inputs = chance.choice(((3, 5, 7), (1, 1, 1), (0, 4, 2), (33, 17, 130)))
    x = arguments.tensor(special_values((rows, inputs), dtype, chance))
    weight = arguments.tensor(torch.randn(outputs, inputs).to(chance.choice((torch.float32, torch.bfloat16))))
    bias = arguments.tensor(torch.randn(outputs)) if chance.random() < 0.5 else None
    return both(
        arguments,
        "int8_linear",
        with_gradients(ops.int8_linear),
        with_gradients(_reference),
        lambda it: ((it[x], it[weight], None if bias is None else it[bias]), {}),
    )
