"""Stochastic rounding and its random bits in plain torch: what csrc/include/burnlike/random.h does.

A draw is a hash of the seed and of the place that is written: it needs no generator, whose state would have to be kept,
and it is the same whatever the number of threads and the device.
"""

from typing import TypeVar

import torch
from torch import Tensor

from .blockwise import BLOCK

_MASK = 0xFFFFFFFF
_GOLDEN = 0x9E3779B9  # 2^32 divided by the golden ratio: multiples of it are spread over all 32 bits

Bits = TypeVar("Bits", int, Tensor)
"""A number, or int64."""


def random_bits(seed: Bits, tensor: int, stream: int, count: int, device: torch.device) -> Tensor:
    """32 random bits for each value of a tensor, int64 `[count]`.

    Args:
        seed: a number, or one in a tensor of int64.
        tensor: place of the parameter in the list.
        stream: 0 for the weight, then one for each of its moments.
    """
    key = _mix(_mix(seed & _MASK) ^ (seed >> 32 & _MASK))
    key = _mix(_mix(key ^ tensor) ^ stream)
    index = torch.arange(count, dtype=torch.int64, device=device)
    block_keys = _mix(index // BLOCK & _MASK ^ key)
    return _mix(block_keys + index % BLOCK * _GOLDEN & _MASK)


def uniform(bits: Tensor) -> Tensor:
    """Numbers in [0, 1) of 24 bits, float32."""
    return (bits >> 8).float() * 2.0**-24


def round_stochastically(values: Tensor, dtype: torch.dtype, bits: Tensor) -> Tensor:
    """Float32 values as float16 or bfloat16, up or down so that the mean over draws is the value.

    Nothing finite becomes infinite that would not when rounded to nearest; what is not finite stays so.
    """
    pattern = values.view(torch.int32).long() & _MASK
    magnitude = pattern & 0x7FFFFFFF
    dropped, overflow, limit, largest = (
        (16, 0x7F800000, 0x7F7F8000, 0x7F7F0000)
        if dtype == torch.bfloat16
        else (13, 0x47800000, 0x477FF000, 0x477FE000)
    )
    rounded = (magnitude + (bits >> 32 - dropped)) >> dropped << dropped
    rounded = torch.where((rounded >= overflow) & (magnitude < limit), largest, rounded)
    result = rounded.int().view(torch.float32)
    if dtype == torch.float16:
        # Below 2^-14 numbers are 2^-24 apart.
        steps = values.abs() * 2.0**24
        below = steps.floor()
        subnormal = (below + (steps - below > uniform(bits))) * 2.0**-24
        result = torch.where(magnitude < 0x38800000, subnormal, result)
    return torch.where(values.isfinite(), result.copysign(values), values).to(dtype)


def _mix(x: Bits) -> Bits:
    """C. Wellons' lowbias32 for 32 bits: each bit of the result depends on each bit of x. Products of tensors wrap
    around."""
    x = (x ^ x >> 16) * 0x7FEB352D & _MASK
    x = (x ^ x >> 15) * 0x846CA68B & _MASK
    return x ^ x >> 16
