"""How the blocks of a file get to the disk: past the page cache or through it.

A file that is synced waits for the disk anyway: past the page cache (O_DIRECT) it costs neither a copy nor gigabytes of
page cache, which a training run has better uses for. Some disks take it faster through the page cache nevertheless, as
the system has more requests under way than threads that write. So large files are begun both ways and go on in the
faster one.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from time import perf_counter
from types import TracebackType
from typing import Self, TypeVar

DIRECT_BYTES = 16 << 20
"""Files from this size on bypass the page cache."""

TRIED_BYTES = 128 << 20
"""Files from this size on are tried both ways."""

ROUND_BYTES = 16 << 20
"""Bytes that are written in one way before it is timed, and while it is."""

_FASTER = 0.9  # of the time past the page cache: what is worth the memory
_PAGE_BYTES = 4096
_BEGIN, _FINISH = 2, 7  # of sync_file_range(2): begin to write what was changed; also wait before and after

_LIBC = ctypes.CDLL(None, use_errno=True)

T = TypeVar("T")


class DiskWrites:
    """Writes to a large file, within a `with` block; after it the file has its exact length.

    Args:
        descriptor: file open for writing.
        file_bytes: its length.
    """

    def __init__(self, descriptor: int, file_bytes: int) -> None:
        self._descriptor = descriptor
        self._file_bytes = file_bytes
        self._flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        self._begins = False  # whether the disk is told of what was written through the page cache

    def __enter__(self) -> Self:
        if self._file_bytes >= DIRECT_BYTES and hasattr(os, "O_DIRECT"):
            with contextlib.suppress(OSError):
                self._bypass(True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        fcntl.fcntl(self._descriptor, fcntl.F_SETFL, self._flags)
        if self._file_bytes >= DIRECT_BYTES and error is None:
            os.ftruncate(self._descriptor, self._file_bytes)

    def rounds(self, steps: Sequence[T], step_bytes: int) -> Iterator[Sequence[T]]:
        """The steps that write the file, in their order: each round is to be done before the next is asked for.

        Args:
            steps: each writes the next `step_bytes` of the file.
            step_bytes: a multiple of a page.
        """
        if self._file_bytes < TRIED_BYTES:
            yield steps
            return
        count = max(1, ROUND_BYTES // step_bytes)
        yield steps[:count]  # threads, buffers and the disk get going
        begun = perf_counter()
        yield steps[count : 2 * count]
        direct_seconds = perf_counter() - begun
        if _is_direct(self._descriptor):
            self._bypass(False)
            begun = perf_counter()
            yield steps[2 * count : 3 * count]
            _sync_range(self._descriptor, 2 * count * step_bytes, count * step_bytes, _FINISH)
            self._bypass(perf_counter() - begun >= _FASTER * direct_seconds)
            count *= 3
        else:
            count *= 2
        yield steps[count:]

    def write(self, buffer: memoryview, count: int, offset: int) -> None:
        """Write the first `count` bytes of `buffer`, which has whole pages, at a multiple of a page."""
        write_all(self._descriptor, buffer, count, offset)
        if self._begins:
            _sync_range(self._descriptor, offset, count, _BEGIN)

    def _bypass(self, past_the_page_cache: bool) -> None:
        flags = self._flags | os.O_DIRECT if past_the_page_cache else self._flags
        fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags)
        self._begins = not past_the_page_cache


def write_all(descriptor: int, buffer: memoryview, count: int, offset: int) -> None:
    """Write the first `count` bytes of `buffer`; past the page cache whole pages, of which DiskWrites cuts the rest.

    Raises:
        OSError: the write failed.
    """
    direct = _is_direct(descriptor)
    data = buffer[: -(-count // _PAGE_BYTES) * _PAGE_BYTES if direct else count]
    while data:
        try:
            written = os.pwrite(descriptor, data, offset)
        except OSError as error:
            if error.errno != errno.EINVAL or not direct:
                raise
            # This file system or an interrupted write does not allow it: go on through the page cache.
            flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
            fcntl.fcntl(descriptor, fcntl.F_SETFL, flags & ~os.O_DIRECT)
            direct = False
            continue
        data, offset = data[written:], offset + written


def _is_direct(descriptor: int) -> bool:
    return bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & getattr(os, "O_DIRECT", 0))


def _sync_range(descriptor: int, offset: int, count: int, what: int) -> None:
    """Have the disk write a range that was changed, where the system has the call.

    Raises:
        OSError: the disk failed, or is full; the system may not say it again when the file is synced.
    """
    function = getattr(_LIBC, "sync_file_range", None)
    if function is None:
        return
    if function(descriptor, ctypes.c_int64(offset), ctypes.c_int64(count), ctypes.c_uint(what)):
        number = ctypes.get_errno()
        if number in (errno.EIO, errno.ENOSPC, errno.EDQUOT):
            raise OSError(number, os.strerror(number))
