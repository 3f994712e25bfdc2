"""Random calls of `rotary`."""

import random
from typing import Any

import torch
from torch import Tensor

from burnlike import ops

from .. import FLOATS, Arguments, Call, both, special_values, with_gradients

SIZES = ((1, 1, 1, 1, 2), (2, 3, 2, 5, 9), (0, 1, 1, 3, 4), (2, 4, 1, 0, 4), (1, 0, 2, 3, 6), (2, 2, 2, 33, 32))


def random_call(chance: random.Random) -> Call:
    """`rotary`, forward and backward; the tables have no gradient."""
    arguments, dtype = Arguments(chance), chance.choice(FLOATS)
    batch, heads, heads_kv, length, width = chance.choice(SIZES)
    table_dtype = chance.choice((dtype, torch.float32))
    interleaved = chance.random() < 0.5
    is_whole = not interleaved and width % 2 == 0 and chance.random() < 0.5
    columns = width if is_whole else chance.randint(0, width // 2)
    shape = (*chance.choice(((), (1,), (batch,))), length, columns)
    query = arguments.tensor(special_values((batch, heads, length, width), dtype, chance))
    key = arguments.tensor(special_values((batch, heads_kv, length, width), dtype, chance))
    cos = arguments.tensor(special_values(shape, table_dtype, chance))
    sin = arguments.tensor(special_values(shape, table_dtype, chance))

    def build(tensors: list[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (tensors[query], tensors[key], tensors[cos], tensors[sin]), {"interleaved": interleaved}

    def of_constants(function: Any) -> Any:
        return with_gradients(
            lambda query, key, cos, sin, **keywords: function(query, key, cos.detach(), sin.detach(), **keywords)
        )

    def native(*tensors: Tensor, interleaved: bool) -> Any:
        return of_constants(lambda *given: ops.rotary(*given, interleaved=interleaved))(*tensors)

    def reference(*tensors: Tensor, interleaved: bool) -> Any:
        return of_constants(lambda *given: ops.rotary_reference(*given, interleaved=interleaved))(*tensors)

    return both(arguments, "rotary", native, reference, build)
