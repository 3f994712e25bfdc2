"""Random calls of `attention`."""

import random

import torch
from torch import Tensor

from burnlike import ops

from .. import Arguments, Call, both, special_values, with_gradients


def values(shape: tuple[int, ...], dtype: torch.dtype, chance: random.Random) -> Tensor:
    """Special ones that are small, as torch gives 0 for some queries that are NaN; tests of attention have others."""
    return special_values(shape, dtype, chance).nan_to_num(0.0).clamp(-4.0, 4.0) / 2


def random_call(chance: random.Random) -> Call:
    """`attention`, forward and backward."""
    arguments, dtype = Arguments(chance), chance.choice((torch.bfloat16, torch.float16))
    heads = chance.choice((1, 2))
    query = arguments.tensor(values((2, 2, chance.choice((1, 5, 20)), 8), dtype, chance))
    key, value = (arguments.tensor(values((2, heads, 7, 8), dtype, chance)) for _ in range(2))
    mask = torch.rand(2, 1, 1, 7) < 0.8 if chance.random() < 0.4 else None
    causal = mask is None and chance.random() < 0.5
    scale = chance.choice((None, 0.5))
    return both(
        arguments,
        "attention",
        with_gradients(ops.attention),
        with_gradients(ops.attention_reference),
        lambda it: ((it[query], it[key], it[value], mask, causal, scale), {}),
    )
