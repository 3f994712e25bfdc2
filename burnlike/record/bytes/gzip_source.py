"""GzipSource: the bytes inside a gzip stream, by position, in a fixed amount of memory. Imports no torch."""

import threading
import zlib

from ...errors import RecordFormatError
from .source import Source

_MAGIC = b"\x1f\x8b"
_FIRST_INPUT_BYTES, _INPUT_BYTES = 1 << 10, 1 << 16
_OUTPUT_BYTES = 1 << 18
_BYTES_PER_STEP, _STREAM_STEPS = 24, 150
_KEPT_BYTES = 1 << 17  # more than what readers ask for ahead of what they read


def is_gzip(source: Source, offset: int = 0) -> bool:
    """Whether a gzip stream begins at `offset` of `source`."""
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
        self._packed = packed
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
            return stop <= self._seen or (self._length is None and self._reach(stop - 1))

    def check_length(self) -> None:
        self._packed.check_length()

    def verify(self) -> bool:
        with self._lock:
            while self._length is None:
                self._reach(self._begin + len(self._window))
        return True

    def read(self, offset: int, count: int) -> bytes:
        """See `Source.read`; grows with what is really there."""
        found = bytearray()
        with self._lock:
            while len(found) < count:
                piece = bytearray(min(count - len(found), _OUTPUT_BYTES))
                self.read_into(offset + len(found), memoryview(piece))
                found += piece
        return bytes(found)

    def _begin_stream(self, offset: int) -> None:
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
