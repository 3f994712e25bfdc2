"""CRC-32 of bytes, as zlib computes it, with carry-less products: faster, so that saves wait for the disk alone."""

import zlib

import torch

from ._library import WITHOUT_NATIVE, op

_crc32 = op("crc32")
_isa = op("cpu_isa")
_SHORT_BYTES = 1 << 13
"""A call of the op costs more than it saves for fewer bytes."""


def crc32(data: memoryview, start: int = 0) -> int:
    """The checksum of bytes; equal to `zlib.crc32`. Other threads run meanwhile.

    Short bytes, those that can't be written (torch takes none), and all of them where the processor has no carry-less
    products are left to zlib.

    Args:
        data: contiguous bytes.
        start: the checksum of what lies before them.

    Returns:
        From 0 to 2^32 - 1.
    """
    if len(data) < _SHORT_BYTES or data.readonly or "cpu" in WITHOUT_NATIVE or _isa() == "default":
        return zlib.crc32(data, start)
    return _crc32(torch.frombuffer(data, dtype=torch.uint8), start)
