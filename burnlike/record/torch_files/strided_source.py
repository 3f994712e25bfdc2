"""StridedSource: reads a tensor that is not in row-major order in that order.

Imports torch only when values are read.
"""

import threading
from collections.abc import Sequence
from math import prod

from ..files.source import Source


def is_contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the elements lie one behind the other, in row-major order."""
    expected = 1
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length != 1 and stride != expected:
            return False
        expected *= length
    return True


class StridedSource(Source):
    """Puts the elements in order in memory when the first is asked for, and lets go of them once all were read.

    Args:
        source: where they are.
        start: offset of the first element.
        size: bytes of one, 1, 2, 4 or 8.
        shape: of the tensor.
        strides: elements from one index to the next, in each dimension; none is 0 where there are several.
    """

    sequential = True

    def __init__(self, source: Source, start: int, size: int, shape: Sequence[int], strides: Sequence[int]) -> None:
        self.path = source.path
        self._source, self._start, self._size = source, start, size
        self._shape, self._strides = shape, strides
        self.stored_bytes = prod(shape) * size
        self._lock = threading.Lock()
        self._ordered: memoryview | None = None
        self._left = 0

    def read_into(self, offset: int, into: memoryview) -> None:
        """See `Source.read_into`."""
        self.require(offset, len(into))
        with self._lock:
            if self._ordered is None:
                self._ordered, self._left = self._in_order(), self.stored_bytes
            into[:] = self._ordered[offset : offset + len(into)]
            self._left -= len(into)
            if self._left <= 0:
                self._ordered = None

    def check_length(self) -> None:
        """See `Source.check_length`."""
        self._source.check_length()

    def verify(self) -> bool:
        """See `Source.verify`."""
        return self._source.verify()

    def has(self, offset: int, count: int) -> bool:
        """See `Source.has`."""
        return offset + count <= self.stored_bytes

    def _in_order(self) -> memoryview:
        import torch

        pairs = zip(self._shape, self._strides, strict=True)
        reach = 1 + sum((length - 1) * stride for length, stride in pairs)
        found = bytearray(reach * self._size)
        self._source.read_into(self._start, memoryview(found))
        ordered = bytearray(self.stored_bytes)
        # As unsigned integers, which torch copies bit for bit.
        dtype = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)[self._size.bit_length() - 1]
        into = torch.frombuffer(ordered, dtype=dtype).view(self._shape)
        into.copy_(torch.frombuffer(found, dtype=dtype).as_strided(self._shape, self._strides))
        return memoryview(ordered)
