"""Writing tensors to a file while they are converted, through a few small buffers.

The file is cut into blocks. Each worker thread takes the next block, converts what belongs there into its buffer and
writes it at its place: conversion and writing of different blocks overlap, and no step needs the whole of a tensor.

Large files are written past the page cache (O_DIRECT). A file that is synced waits for the disk anyway, and so costs
neither a copy nor gigabytes of page cache, which a training run has better uses for.
"""

import contextlib
import ctypes
import errno
import fcntl
import itertools
import mmap
import os
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from .convert import can_lose, check_floats, check_ints, pieces

BLOCK_BYTES = 2 << 20
"""Bytes of one block and buffer: a huge page, which a disk takes in one request."""

MAX_WORKERS = 4
"""Threads, and so buffers. More than there are cores, as they wait for the disk in turn."""

DIRECT_BYTES = 16 << 20
"""Files from this size on bypass the page cache."""

_STEP_ELEMENTS = 1 << 18  # converted and then checked while still in the processor's cache
_PAGE_BYTES = 4096


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
    workers = min(MAX_WORKERS, writer.blocks)
    if workers < 2:
        writer.write_blocks(torch.empty(BLOCK_BYTES, dtype=torch.uint8))
        return
    buffers = _buffers(workers)
    with _one_torch_thread_each(workers) as ready, _direct(descriptor, writer.file_bytes):
        _run([threading.Thread(target=writer.work, args=(buffer, ready)) for buffer in buffers], writer, ready)
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

    def work(self, buffer: Tensor, ready: threading.Barrier) -> None:
        """Write blocks, as one of several threads; the first error of all is kept in `error`."""
        try:
            torch.set_num_threads(1)
            ready.wait()
            self.write_blocks(buffer)
        except BaseException as error:
            self.error = self.error or error

    def write_blocks(self, buffer: Tensor) -> None:
        """Write blocks until none is left or a worker has failed."""
        for index in self.next_block:
            start = index * BLOCK_BYTES
            if start >= self.file_bytes or self.error is not None:
                return
            stop = min(start + BLOCK_BYTES, self.file_bytes)
            self._fill(buffer, start, stop)
            _write_all(self.descriptor, bytes_at(buffer.data_ptr(), buffer.numel()), stop - start, start)

    def _fill(self, buffer: Tensor, start: int, stop: int) -> None:
        """Put what belongs at `start` to `stop` of the file into `buffer`, converted."""
        head = self.head[start:stop]
        bytes_at(buffer.data_ptr(), len(head))[:] = head
        index = max(0, bisect_right(self.starts, start) - 1)
        for part in itertools.islice(self.parts, index, None):
            if part.start >= stop:
                break
            first, last = max(start, part.start), min(stop, part.start + part.nbytes)
            if first < last:
                values = buffer[first - start : last - start].view(part.dtype)
                self._convert(part, (first - part.start) // part.dtype.itemsize, values)

    def _convert(self, part: Part, first: int, values: Tensor) -> None:
        """Fill `values` with the part's elements from index `first` on."""
        checked = can_lose(part.tensor.dtype, part.dtype)
        for begin in range(0, values.numel(), _STEP_ELEMENTS):
            end = min(begin + _STEP_ELEMENTS, values.numel())
            for source, before in pieces(part.tensor, first + begin, first + end):
                into = values[begin + before : begin + before + source.numel()].view(source.shape)
                if checked and not part.dtype.is_floating_point:
                    check_ints(part.name, source, part.dtype)
                converted = into.copy_(source) if source.device.type == "cpu" else source.to(part.dtype)
                if checked and part.dtype.is_floating_point and not self.allow_overflow:
                    check_floats(part.name, source, converted)
                if converted is not into:
                    into.copy_(converted)


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


def _buffers(count: int) -> list[Tensor]:
    """Buffers that each begin a page, and are one huge page where the system has those."""
    memory = mmap.mmap(-1, (count + 1) * BLOCK_BYTES)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    whole = torch.frombuffer(memory, dtype=torch.uint8)
    skipped = -whole.data_ptr() % BLOCK_BYTES
    return list(whole[skipped : skipped + count * BLOCK_BYTES].split(BLOCK_BYTES))


@contextmanager
def _direct(descriptor: int, file_bytes: int) -> Iterator[None]:
    """Write a large file past the page cache, where the file system can; afterwards it has its exact length."""
    if file_bytes < DIRECT_BYTES or not hasattr(os, "O_DIRECT"):
        yield
        return
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    with contextlib.suppress(OSError):
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_DIRECT)
    try:
        yield
    finally:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)
    os.ftruncate(descriptor, file_bytes)


def bytes_at(address: int, count: int) -> memoryview:
    """The memory at `address` for reading and writing; whoever uses it keeps its tensor alive."""
    return memoryview((ctypes.c_ubyte * count).from_address(address)).cast("B")


def _write_all(descriptor: int, buffer: memoryview, count: int, offset: int) -> None:
    """Write the first `count` bytes of `buffer`; past the page cache, whole pages, of which `_direct` cuts the rest."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    direct = bool(flags & getattr(os, "O_DIRECT", 0))
    data = buffer[: -(-count // _PAGE_BYTES) * _PAGE_BYTES if direct else count]
    while data:
        try:
            written = os.pwrite(descriptor, data, offset)
        except OSError as error:
            if error.errno != errno.EINVAL or not direct:
                raise
            # This file system or an interrupted write does not allow it: go on through the page cache.
            fcntl.fcntl(descriptor, fcntl.F_SETFL, flags & ~os.O_DIRECT)
            direct = False
            continue
        data, offset = data[written:], offset + written
