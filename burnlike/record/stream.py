"""Writing tensors to a file while they are converted, through a few small buffers.

The file is cut into blocks. Each worker thread takes the next block, converts what belongs there into its buffer and
writes it at its place: conversion and writing of different blocks overlap, and no step needs the whole of a tensor.
"""

import ctypes
import itertools
import os
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from .convert import can_lose, check_floats, check_ints, pieces

BLOCK_BYTES = 1 << 20
"""Bytes of one block: small enough that a converted block is still in the processor's cache when it is written."""

MAX_WORKERS = 4
"""Threads, and so buffers; more do not help, as the file system takes one write of a file at a time."""


@dataclass(frozen=True, slots=True)
class Part:
    """One tensor and its place in the file.

    Attributes:
        name: for messages.
        tensor: the values, of any strides, on any device.
        dtype: the type to write.
        start: offset in the file of the first byte.
        nbytes: bytes in the file.
    """

    name: str
    tensor: Tensor
    dtype: torch.dtype
    start: int
    nbytes: int


def write_parts(descriptor: int, head: bytes, parts: Sequence[Part], allow_overflow: bool = False) -> None:
    """Write `head` and then the parts, which lie one behind the other.

    Args:
        descriptor: file open for writing.
        head: the bytes before the first part.
        parts: in file order, without gaps.
        allow_overflow: do not check that finite values stay finite.

    Raises:
        OSError: a write failed.
        PrecisionError: a value can't be stored in its part's dtype.
    """
    writer = _Writer(descriptor, head, [part for part in parts if part.nbytes], allow_overflow)
    workers = min(MAX_WORKERS, _cores(), writer.blocks)
    if workers < 2:
        writer.work()
        return
    with _one_torch_thread_each(workers) as ready:
        _run([threading.Thread(target=writer.work, args=(ready,)) for _ in range(workers)], writer, ready)
    if writer.error is not None:
        raise writer.error


class _Writer:
    """The blocks of one file, shared by the workers."""

    def __init__(self, descriptor: int, head: bytes, parts: Sequence[Part], allow_overflow: bool) -> None:
        self.descriptor = descriptor
        self.head = head
        self.parts = parts
        self.starts = [part.start for part in parts]
        self.file_bytes = parts[-1].start + parts[-1].nbytes if parts else len(head)
        self.blocks = -(-self.file_bytes // BLOCK_BYTES)
        self.allow_overflow = allow_overflow
        self.next_block = itertools.count()
        self.error: BaseException | None = None

    def work(self, ready: "threading.Barrier | None" = None) -> None:
        """Write blocks until none is left or a worker has failed."""
        if ready is None:
            self._write_blocks()
            return
        try:
            torch.set_num_threads(1)
            ready.wait()
            self._write_blocks()
        except BaseException as error:
            self.error = self.error or error

    def _write_blocks(self) -> None:
        buffer = torch.empty(min(BLOCK_BYTES, self.file_bytes), dtype=torch.uint8)
        for index in self.next_block:
            start = index * BLOCK_BYTES
            if start >= self.file_bytes or self.error is not None:
                return
            stop = min(start + BLOCK_BYTES, self.file_bytes)
            _write_all(self.descriptor, self._direct(start, stop) or self._filled(buffer, start, stop), start)

    def _direct(self, start: int, stop: int) -> memoryview | None:
        """The block's bytes where they lie in memory as the file wants them; None elsewhere."""
        part = self.parts[max(0, bisect_right(self.starts, start) - 1)] if self.parts else None
        if part is None or start < part.start or stop > part.start + part.nbytes or not _as_stored(part):
            return None
        return bytes_at(part.tensor.data_ptr() + start - part.start, stop - start)

    def _filled(self, buffer: Tensor, start: int, stop: int) -> memoryview:
        """The block's bytes, converted into `buffer`."""
        view = bytes_at(buffer.data_ptr(), stop - start)
        head = self.head[start:stop]
        view[: len(head)] = head
        index = max(0, bisect_right(self.starts, start) - 1)
        for part in itertools.islice(self.parts, index, None):
            if part.start >= stop:
                break
            first, last = max(start, part.start), min(stop, part.start + part.nbytes)
            if first < last:
                self._convert(part, first - part.start, buffer[first - start : last - start])
        return view

    def _convert(self, part: Part, begin: int, target: Tensor) -> None:
        """Fill `target` (bytes) with what begins `begin` bytes into the part."""
        width = part.dtype.itemsize
        first, count = begin // width, target.numel() // width
        checked = can_lose(part.tensor.dtype, part.dtype)
        values = target.view(part.dtype)
        for source, before in pieces(part.tensor, first, first + count):
            into = values[before : before + source.numel()]
            if checked and not part.dtype.is_floating_point:
                check_ints(part.name, source, part.dtype)
            converted = source.to(part.dtype) if source.device.type != "cpu" else source
            into.view(source.shape).copy_(converted)
            if checked and part.dtype.is_floating_point and not self.allow_overflow:
                check_floats(part.name, source, converted if converted is not source else into.view(source.shape))


def _run(threads: Sequence[threading.Thread], writer: _Writer, ready: threading.Barrier) -> None:
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException as error:  # an interrupt of the main thread: the workers must not outlive the file
        writer.error = writer.error or error
        ready.abort()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        raise


@contextmanager
def _one_torch_thread_each(workers: int) -> Iterator[threading.Barrier]:
    """Let each worker compute with one thread: teams of threads within each would only get in each other's way.

    `torch.set_num_threads` counts for the calling thread and for threads that are new to torch. So the workers set it
    to 1 and, once all have, the last of them puts the number for new threads back, in a thread made for that.
    """
    before = torch.get_num_threads()

    def restore() -> None:
        thread = threading.Thread(target=torch.set_num_threads, args=(before,))
        thread.start()
        thread.join()

    try:
        yield threading.Barrier(workers, action=restore)
    finally:
        restore()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _as_stored(part: Part) -> bool:
    tensor = part.tensor
    return (
        tensor.dtype == part.dtype
        and tensor.device.type == "cpu"
        and tensor.is_contiguous()
        and not tensor.is_neg()
        and not tensor.is_conj()
    )


def bytes_at(address: int, count: int) -> memoryview:
    """The memory at `address` for reading and writing; whoever uses it keeps its tensor alive."""
    return memoryview((ctypes.c_ubyte * count).from_address(address)).cast("B")


def _write_all(descriptor: int, data: memoryview, offset: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, offset)
        data, offset = data[written:], offset + written
