"""Philox2x32-10: random words as a function of a counter and a key (Salmon et al. 2011, section 4.3).

It is written for Python's numbers and for int64 tensors alike, and no product leaves 64 bits. For torch.compile it is
one op: as its many operations, inductor would write out each of them anew for each use of its result.
"""

from typing import Any, TypeVar

import torch
from torch import Tensor

N = TypeVar("N", int, Tensor)
WORD = 2**32 - 1
"""A word of 32 bits, all set."""
_MULTIPLIER = 0xD256D193 - 2**32  # congruent modulo 2**32, and small enough
_WEYL = 0x9E3779B9
_ROUNDS = 10


def philox(counter: N, counter_high: N, key: N) -> tuple[N, N]:
    """Two random words for each counter of two words, under a key. Words have 32 bits; tensors are broadcast."""
    left, right = counter, counter_high
    for _ in range(_ROUNDS):
        product = left * _MULTIPLIER
        left, right = ((product >> 32) + left) ^ key ^ right, product & WORD
        key = (key + _WEYL) & WORD
    return left, right


@torch.library.custom_op("burnlike::philox", mutates_args=())
def traced_philox(counter: Tensor, counter_high: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """`philox` as one op, for code that torch.compile traces."""
    return philox(counter, counter_high, key)


@traced_philox.register_fake
def _(counter: Tensor, counter_high: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    shape = torch.broadcast_shapes(counter.shape, counter_high.shape, key.shape)
    return counter.new_empty(shape), counter.new_empty(shape)


@traced_philox.register_vmap
def _(info: Any, in_dims: tuple[int | None, ...], *words: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
    rank = max(tensor.dim() - (dim is not None) for tensor, dim in zip(words, in_dims, strict=True))
    aligned = []
    for tensor, dim in zip(words, in_dims, strict=True):
        if dim is not None:
            tensor = tensor.movedim(dim, 0)
            tensor = tensor.reshape(tensor.shape[0], *[1] * (rank + 1 - tensor.dim()), *tensor.shape[1:])
        aligned.append(tensor)
    return traced_philox(*aligned), (0, 0)
