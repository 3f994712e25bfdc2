"""Random calls of the ops without derivatives that read bytes or draw: `crc32`, `read_values_`, `bernoulli_noise_`."""

import os
import random
import zlib

import torch
from torch import Tensor

from burnlike import ops

from ..hostile import SHAPES, Arguments, Call, both
from ..op_case import FLOATS

_VALUES = torch.linspace(-3, 3, 600, dtype=torch.float64)


def _file_of(dtype: torch.dtype) -> int:
    """The descriptor of a file in memory, which lives as long as this process."""
    descriptor = os.memfd_create(str(dtype))
    os.write(descriptor, _VALUES.to(dtype).view(torch.uint8).numpy().tobytes())
    return descriptor


_FILES = {dtype: _file_of(dtype) for dtype in FLOATS}


def _crc32(data: Tensor, start: int) -> Tensor:
    return torch.tensor(torch.ops.burnlike.crc32(data, start))


def _crc32_reference(data: Tensor, start: int) -> Tensor:
    return torch.tensor(zlib.crc32(bytes(data.flatten().tolist()), start))


def _noise(noise: Tensor, probability: float) -> None:
    torch.manual_seed(0)
    ops.bernoulli_noise_(noise, probability, 2.0)


@torch.no_grad()
def _noise_reference(noise: Tensor, probability: float) -> None:
    """By the op on contiguous memory: what the op draws is compared with torch by its own tests."""
    values = torch.zeros(noise.shape, dtype=noise.dtype)
    _noise(values, probability)
    noise.copy_(values)


def random_bytes_and_noise(chance: random.Random) -> Call:
    """One of them."""
    arguments, dtype, shape = Arguments(chance), chance.choice(FLOATS), chance.choice(SHAPES)
    name = chance.choice(("crc32", "read_values_", "bernoulli_noise_"))
    if name == "crc32":
        data = arguments.tensor(torch.randint(0, 256, shape, dtype=torch.uint8))
        start = chance.choice((0, 1, 2**32 - 1, -1, 2**32))
        arguments.marks += ["start"] * (not 0 <= start < 2**32)
        return both(arguments, name, _crc32, _crc32_reference, lambda it: ((it[data], start), {}))
    target = arguments.tensor(torch.zeros(shape, dtype=dtype))
    if name == "bernoulli_noise_":
        probability = arguments.scalar(0.3)
        return both(arguments, name, _noise, _noise_reference, lambda it: ((it[target], probability), {}))
    source, offset = chance.choice(FLOATS), chance.choice((0, 8, 10_000, -1))
    arguments.marks += ["offset"] * (offset < 0)
    return both(
        arguments,
        name,
        ops.read_values_,
        ops.read_values_reference,
        lambda it: ((it[target], _FILES[source], offset, source), {}),
    )
