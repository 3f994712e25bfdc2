"""GzipSource: the bytes inside a gzip stream, by position, in a fixed amount of memory. Imports no torch."""

import threading
import zlib

from ..errors import RecordFormatError
from .source import Source

_MAGIC = b"\x1f\x8b"
_INPUT_BYTES = 1 << 16
_OUTPUT_BYTES = 1 << 18


def is_gzip(source: Source) -> bool:
    """Whether `source` begins as a gzip stream does."""
    return source.has(0, len(_MAGIC)) and source.read(0, len(_MAGIC)) == _MAGIC


class GzipSource(Source):
    """Reads forward; what lies before the current place is unpacked again from the beginning.

    Nothing is kept but the current piece, so a stream that unpacks to a thousand times its length takes no memory.
    A record's tensors are stored in the order in which they are loaded, so loading takes one pass.
    """

    def __init__(self, packed: Source) -> None:
        self.path = packed.path
        self._packed = packed
        self._lock = threading.RLock()
        self._restart()

    def read_into(self, offset: int, into: memoryview) -> None:
        """See `Source.read_into`."""
        with self._lock:
            if offset < self._begin:
                self._restart()
            while into:
                if not self._reach(offset):
                    raise RecordFormatError(f"{self.path}: truncated: its unpacked data ends before byte {offset}")
                piece = self._piece[offset - self._begin : offset - self._begin + len(into)]
                into[: len(piece)] = piece
                into, offset = into[len(piece) :], offset + len(piece)

    def has(self, offset: int, count: int) -> bool:
        """See `Source.has`; unpacks up to there."""
        if count == 0:
            return True
        with self._lock:
            if self._end is not None:
                return offset + count <= self._end
            if offset + count <= self._seen:
                return True
            return self._reach(offset + count - 1)

    def read(self, offset: int, count: int) -> bytes:
        """See `Source.read`; grows with what is really there."""
        found = bytearray()
        with self._lock:
            while len(found) < count:
                step = min(count - len(found), _OUTPUT_BYTES)
                piece = bytearray(step)
                self.read_into(offset + len(found), memoryview(piece))
                found += piece
        return bytes(found)

    def _restart(self) -> None:
        self._unpacker = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        self._input, self._input_offset = b"", 0
        self._piece, self._begin = b"", 0
        self._seen = getattr(self, "_seen", 0)
        self._end: int | None = getattr(self, "_end", None)

    def _reach(self, offset: int) -> bool:
        """Unpack until the piece holds `offset`; False if the stream ends before."""
        if offset < self._begin:
            self._restart()
        while offset >= self._begin + len(self._piece):
            if not self._next_piece():
                return False
        return True

    def _next_piece(self) -> bool:
        self._begin += len(self._piece)
        self._piece = b""
        while not self._piece:
            if self._unpacker.eof:
                self._end = self._begin
                return False
            if not self._input and not self._unpacker.unconsumed_tail:
                self._input = self._next_input()
            try:
                self._piece = self._unpacker.decompress(self._unpacker.unconsumed_tail or self._input, _OUTPUT_BYTES)
            except zlib.error as error:
                raise RecordFormatError(
                    f"{self.path}: its compressed data is damaged ({error}); save or fetch it again"
                ) from error
            self._input = b""
        self._seen = max(self._seen, self._begin + len(self._piece))
        return True

    def _next_input(self) -> bytes:
        count = _INPUT_BYTES
        while count and not self._packed.has(self._input_offset, count):
            count //= 2
        if count == 0:
            raise RecordFormatError(f"{self.path}: truncated within its compressed data; save or fetch it again")
        found = self._packed.read(self._input_offset, count)
        self._input_offset += count
        return found
