"""StridedSource: the values of a tensor that do not lie in row-major order, in that order. Imports no torch."""

import threading
from collections.abc import Sequence
from math import prod
from typing import Any

from .source import Source

_CODES: Any = {1: "B", 2: "H", 4: "I", 8: "Q"}


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

    def has(self, offset: int, count: int) -> bool:
        """See `Source.has`."""
        return offset + count <= self.stored_bytes

    def _in_order(self) -> memoryview:
        dims = [pair for pair in zip(self._shape, self._strides, strict=True) if pair[0] != 1]
        reach = 1 + sum((length - 1) * stride for length, stride in dims)
        code = _CODES[self._size]
        found = memoryview(self._source.read(self._start, reach * self._size)).cast(code)
        ordered = memoryview(bytearray(self.stored_bytes))
        _copy(ordered.cast(code), found, dims)
        return ordered


def _copy(into: memoryview, found: memoryview, dims: Sequence[tuple[int, int]]) -> None:
    """Fill `into` with elements of `found`: those of the innermost dimension at once."""
    (length, stride), rest = dims[0], dims[1:]
    if not rest:
        into[:] = found[: (length - 1) * stride + 1 : stride]
        return
    step = len(into) // length
    for index in range(length):
        _copy(into[index * step : (index + 1) * step], found[index * stride :], rest)
