"""Sources of a record's bytes: a file, memory, or compressed data; and their checksums. Imports no torch.

Bytes are read by position into memory of our own, never mapped: a mapped file that is cut short by someone else kills
the process. A file stays open as long as something reads from it, so a record that was loaded before its file was
replaced goes on reading the old one. Of a set of many files the later ones are opened for each read, as a process may
have few files open, and are an error if they were replaced. The bytes inside a gzip stream are read by position too, in
a fixed amount of memory.

CRC-32s of tensors' bytes are computed block by block in any order, and checked when values are read. The checksum of
two blocks one behind the other follows from theirs and the second one's length: a byte of zeros multiplies a checksum
by a fixed matrix over GF(2) (M. Adler, zlib's crc32_combine).
"""

import os
import stat
import sys
import threading
import weakref
import zlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache, cached_property

from ...errors import RecordFormatError, RecordIOError
from .budget import Budget

MOST_OPEN = 200
"""Files of a set that stay open; many systems allow a process 1,024."""
_WINDOW_BYTES = 1 << 16


class Source(ABC):
    """Bytes with positions. Reading raises RecordFormatError where there are fewer, RecordIOError where it fails.

    Attributes:
        path: what messages call it.
        stored_bytes: how many bytes are stored, compressed or not: what a reader may take memory for.
        sequential: whether reading backwards is costly; several threads then only get in each other's way.
        parts: the sources that its bytes come from.
    """

    path: str
    stored_bytes: int
    sequential: bool = False
    parts: "Collection[Source]" = ()

    @cached_property
    def budget(self) -> Budget:
        """The budget for opening it; that of the whole set if the file is one of several."""
        budget = Budget(self.path)
        budget.add_file(self.stored_bytes)
        return budget

    @abstractmethod
    def read_into(self, offset: int, into: memoryview) -> None:
        """Fill `into` with the bytes from `offset` on."""

    def has(self, offset: int, count: int) -> bool:
        """True if there are `count` bytes from `offset` on; reads no more than it has to."""
        return offset + count <= self.stored_bytes

    def read(self, offset: int, count: int) -> bytes:
        """`count` bytes from `offset` on; takes no memory for bytes that are not there."""
        self.require(offset, count)
        data = bytearray(count)
        self.read_into(offset, memoryview(data))
        return bytes(data)

    def read_some(self, offset: int, most: int) -> bytes:
        """Some of the bytes from `offset` on, at most `most`; none at the end."""
        while most and not self.has(offset, most):
            most //= 2
        return self.read(offset, most) if most else b""

    def check_length(self) -> None:
        """Raise RecordIOError if what the bytes come from was cut since it was opened."""
        for part in self.parts:
            part.check_length()

    def check(self) -> None:
        """Compare the checksums without which no byte is handed out, unless that was done."""
        for part in self.parts:
            part.check()

    def verify(self) -> bool:
        """Compare the bytes with the checksum that they have, beside those of tensors; whether they have one."""
        return {True} == {part.verify() for part in self.parts}

    def require(self, offset: int, count: int) -> None:
        """Check that there are `count` bytes from `offset` on."""
        if not self.has(offset, count):
            raise RecordFormatError(
                f"{self.path}: truncated: {count} bytes expected at byte {offset}; save or fetch it again"
            )


class FileSource(Source):
    """A file, which stays open; but of a set of many files only the first ones do, and others open for each read.

    Attributes:
        descriptor: of the open file; -1 of one that does not stay open, see `opened`.
    """

    def __init__(
        self, path: str | os.PathLike[str], budget: Budget | None = None, *, stays_open: bool | None = None
    ) -> None:
        """Open the file.

        Args:
            path: of the file.
            budget: that of the set of files which it is one of; None makes one for it.
            stays_open: None: as the number of files in the budget allows.
        """
        self.path = os.fspath(path)
        self.descriptor = self._open()
        status = os.fstat(self.descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(self.descriptor)
            raise RecordIOError(f"{self.path}: expected a record's file, got a directory or a device")
        self.stored_bytes = status.st_size
        self._identity = _identity(status)
        if budget is not None:
            self.budget = budget
            budget.add_file(self.stored_bytes)
        if stays_open is None:
            stays_open = budget is None or budget.files <= MOST_OPEN
        if stays_open:
            weakref.finalize(self, os.close, self.descriptor)
        else:
            os.close(self.descriptor)
            self.descriptor = -1

    def _open(self) -> int:
        try:
            # Without O_NONBLOCK, opening a pipe would wait for someone who writes into it; it is refused later.
            return os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError as error:
            is_url = "://" in self.path
            remedy = " on this machine; get a run from its mirror by: burnlike runs --fetch PLACE/RUN" if is_url else ""
            raise RecordIOError(f"{self.path}: no such file; expected a record{remedy}") from error
        except (OSError, ValueError) as error:
            what = getattr(error, "strerror", None) or error
            raise RecordIOError(f"{self.path}: can't be opened for reading: {what}") from error

    @contextmanager
    def opened(self) -> Iterator[int]:
        """A descriptor of the file; a RecordIOError says that it has been replaced since it was opened first."""
        if self.descriptor >= 0:
            yield self.descriptor
            return
        descriptor = self._open()
        try:
            if _identity(os.fstat(descriptor)) != self._identity:
                raise RecordIOError(f"{self.path}: was replaced or changed after it was opened; load it again")
            yield descriptor
        finally:
            os.close(descriptor)

    def read_into(self, offset: int, into: memoryview) -> None:
        """See `Source.read_into`; a file that was cut since it was opened is a RecordIOError."""
        self.require(offset, len(into))
        if self.descriptor >= 0:
            self._read(self.descriptor, offset, into)
        else:
            with self.opened() as descriptor:
                self._read(descriptor, offset, into)

    def _read(self, descriptor: int, offset: int, into: memoryview) -> None:
        while into:
            try:
                count = os.preadv(descriptor, [into], offset)
            except OSError as error:
                raise RecordIOError(f"{self.path}: reading failed: {error.strerror}") from error
            if count == 0:
                self.check_length()
                raise RecordIOError(f"{self.path}: ends at byte {offset}; save or fetch it again")
            into, offset = into[count:], offset + count

    def check_length(self) -> None:
        with self.opened() as descriptor:
            length = os.fstat(descriptor).st_size
        if length < self.stored_bytes:
            raise RecordIOError(
                f"{self.path}: was cut to {length} of {self.stored_bytes} bytes after it was opened; save or fetch it"
                " again"
            )


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class BytesSource(Source):
    """Bytes in memory."""

    def __init__(self, data: bytes | bytearray | memoryview, path: str = "the bytes") -> None:
        self.path = path
        self.data = memoryview(data).cast("B")
        self.stored_bytes = len(self.data)

    def read_into(self, offset: int, into: memoryview) -> None:
        self.require(offset, len(into))
        into[:] = self.data[offset : offset + len(into)]


class Cursor:
    """Reads a source from front to back, through a small window; `position` is the offset of the next byte."""

    def __init__(self, source: Source, position: int = 0, window_bytes: int = _WINDOW_BYTES) -> None:
        self.source = source
        self.position = position
        self._window, self._begin = b"", 0
        self._window_bytes = window_bytes

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        first = self.position - self._begin
        if first < 0 or first + count > len(self._window):
            self._fill(count)
            first = 0
        self.position += count
        return self._window[first : first + count]

    def take_byte(self) -> int:
        at = self.position - self._begin
        if not 0 <= at < len(self._window):
            self._fill(1)
            at = 0
        self.position += 1
        return self._window[at]

    def skip(self, count: int) -> None:
        """Go over `count` bytes, which must be there."""
        self.source.require(self.position, count)
        self.position += count

    def at_end(self) -> bool:
        return not self.source.has(self.position, 1)

    def _fill(self, least: int) -> None:
        window = self.source.read_some(self.position, self._window_bytes) if least <= self._window_bytes else b""
        self._window = window if len(window) >= least else self.source.read(self.position, least)
        self._begin = self.position


_MAGIC = b"\x1f\x8b"
_FIRST_INPUT_BYTES, _INPUT_BYTES = 1 << 10, 1 << 16
_OUTPUT_BYTES = 1 << 18
_BYTES_PER_STEP, _STREAM_STEPS = 24, 150
_KEPT_BYTES = 1 << 17  # more than what readers ask for ahead of what they read


def is_gzip(source: Source, offset: int = 0) -> bool:
    """True if a gzip stream begins at `offset` of `source`."""
    return source.has(offset, len(_MAGIC)) and source.read(offset, len(_MAGIC)) == _MAGIC


class GzipSource(Source):
    """Reads forward; what lies far before the current place is unpacked again from the beginning.

    Nothing is kept but a window, so a stream that unpacks to a thousand times its length takes no memory. A record's
    tensors are stored in the order in which they are loaded, so loading takes one pass. Streams that follow each other
    are one (RFC 1952, 2.2); anything else behind a stream is an error.

    Attributes:
        restarts: how many times it was unpacked again from the beginning.
    """

    sequential = True

    def __init__(self, packed: Source) -> None:
        self.path, self.stored_bytes, self.budget = packed.path, packed.stored_bytes, packed.budget
        self.budget.compressed(packed.stored_bytes)
        self.restarts = 0
        self._packed, self.parts = packed, (packed,)
        # An RLock: `read` calls `read_into` under it, so that no other thread moves the window between two pieces.
        self._lock = threading.RLock()
        self._seen = 0
        self._length: int | None = None  # of what is unpacked, once the end was seen
        self._window, self._begin = b"", 0
        self._begin_stream(0)

    def read_into(self, offset: int, into: memoryview) -> None:
        with self._lock:
            while into:
                if not self._reach(offset):
                    raise RecordFormatError(
                        f"{self.path}: truncated: its unpacked data ends before byte {offset}; save or fetch it again"
                    )
                first = offset - self._begin
                piece = memoryview(self._window)[first : first + len(into)]
                into[: len(piece)] = piece
                into, offset = into[len(piece) :], offset + len(piece)

    def has(self, offset: int, count: int) -> bool:
        """See `Source.has`; unpacks up to there."""
        stop = offset + count
        with self._lock:
            # What was seen once is not unpacked again to answer this.
            return stop <= self._seen or (self._length is None and self._reach(stop - 1))

    def verify(self) -> bool:
        with self._lock:
            while self._length is None:
                self._reach(self._begin + len(self._window))
        return True

    def read(self, offset: int, count: int) -> bytes:
        """See `Source.read`; grows with what is really there."""
        data = bytearray()
        with self._lock:
            while len(data) < count:
                piece = bytearray(min(count - len(data), _OUTPUT_BYTES))
                self.read_into(offset + len(data), memoryview(piece))
                data += piece
        return bytes(data)

    def _begin_stream(self, offset: int) -> None:
        # Each stream costs time whatever it holds: thousands of empty ones are a short file.
        self.budget.take(0, _STREAM_STEPS)
        self._unpacker = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        self._input_offset, self._input_bytes = offset, _FIRST_INPUT_BYTES

    def _reach(self, offset: int) -> bool:
        """Unpack until the window holds `offset`; False if the data ends before."""
        if offset < self._begin:
            self.restarts += 1
            self._window, self._begin = b"", 0
            self._begin_stream(0)
        while offset >= self._begin + len(self._window):
            piece = self._unpack()
            if not piece:
                self._length = self._begin + len(self._window)
                return False
            kept = self._window[-_KEPT_BYTES:]
            self._begin += len(self._window) - len(kept)
            self._window = kept + piece
            self._seen = max(self._seen, self._begin + len(self._window))
        return True

    def _unpack(self) -> bytes:
        """The next piece, nothing at the end."""
        piece = b""
        while not piece:
            if self._unpacker.eof:
                end = self._input_offset - len(self._unpacker.unused_data)
                if not self._packed.has(end, 1):
                    break
                if not is_gzip(self._packed, end):
                    raise RecordFormatError(
                        f"{self.path}: bytes lie behind its compressed data, at byte {end}; save or fetch it again"
                    )
                self._begin_stream(end)
            packed = self._unpacker.unconsumed_tail
            if not packed:
                packed = self._packed.read_some(self._input_offset, self._input_bytes)
                if not packed:
                    raise RecordFormatError(
                        f"{self.path}: truncated within its compressed data; save or fetch it again"
                    )
                self._input_offset += len(packed)
                # Small at first: streams of a few bytes that follow each other must not be read again for each.
                self._input_bytes = min(2 * self._input_bytes, _INPUT_BYTES)
            try:
                piece = self._unpacker.decompress(packed, _OUTPUT_BYTES)
            except zlib.error as error:
                raise RecordFormatError(
                    f"{self.path}: its compressed data is damaged ({error}); save or fetch it again"
                ) from error
        self.budget.take(0, len(piece) / _BYTES_PER_STEP)
        return piece


HEX_DIGITS = 8
_POLYNOMIAL = 0xEDB88320
_STEP_BYTES = 1 << 20


def combined(first: int, second: int, second_bytes: int) -> int:
    """The checksum of bytes of which the first ones have the checksum `first`, the `second_bytes` after them `second`.

    >>> import zlib
    >>> combined(zlib.crc32(b"ab"), zlib.crc32(b"cde"), 3) == zlib.crc32(b"abcde")
    True
    """
    power = 0
    while second_bytes:
        if second_bytes & 1:
            first = _times(_zeros(power), first)
        second_bytes >>= 1
        power += 1
    return first ^ second


@cache
def _zeros(power: int) -> tuple[int, ...]:
    """The matrix of 2**power bytes of zeros, column by column."""
    if power == 0:
        matrix = (_POLYNOMIAL, *(1 << bit for bit in range(31)))  # of one bit
        for _ in range(3):
            matrix = tuple(_times(matrix, column) for column in matrix)
        return matrix
    half = _zeros(power - 1)
    return tuple(_times(half, column) for column in half)


def _times(matrix: tuple[int, ...], vector: int) -> int:
    product = 0
    for column in matrix:
        if not vector:
            break
        if vector & 1:
            product ^= column
        vector >>= 1
    return product


def crc32(data: memoryview, start: int = 0) -> int:
    """The checksum of bytes that lie behind those with the checksum `start`.

    By the native op; by zlib in a program without torch, whose import takes longer than most files.
    """
    if "torch" not in sys.modules:
        return zlib.crc32(data, start)
    from ...ops import crc32 as native

    return native(data, start)


def checksum_of(source: Source, start: int, count: int) -> int:
    buffer = memoryview(bytearray(min(count, _STEP_BYTES)))
    checksum = 0
    for at in range(0, count, _STEP_BYTES):
        piece = buffer[: min(_STEP_BYTES, count - at)]
        source.read_into(start + at, piece)
        checksum = crc32(piece, checksum)
    return checksum


class CheckedSource(Source):
    """A part of a source whose checksum, if it has one, is compared before the first of its bytes is handed out."""

    def __init__(self, source: Source, start: int, size: int, crc32: int | None, name: str) -> None:
        self.path, self.stored_bytes, self.budget = source.path, size, source.budget
        self._source, self._start, self._crc32, self._name = source, start, crc32, name
        self.parts = (source,)
        # Several threads read one tensor: the first compares, the others wait for what it finds.
        self._lock = threading.Lock()
        self._is_checked = crc32 is None

    def read_into(self, offset: int, into: memoryview) -> None:
        self.check()
        self.require(offset, len(into))
        self._source.read_into(self._start + offset, into)

    def check(self) -> None:
        with self._lock:
            if not self._is_checked:
                self._check()

    def verify(self) -> bool:
        if self._crc32 is None:
            return False
        self._check()
        return True

    def _check(self) -> None:
        if checksum_of(self._source, self._start, self.stored_bytes) != self._crc32:
            raise RecordFormatError(
                f"{self.path}: the bytes of '{self._name[:80]}' are not those that were saved (its CRC-32 differs): the"
                " file is damaged; fetch or save it again"
            )
        self._is_checked = True
