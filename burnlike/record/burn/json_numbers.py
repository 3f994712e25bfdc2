"""Bytes as JSON arrays of numbers: counted, checked and read in pieces. Imports no torch."""

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from ...errors import RecordFormatError
from ..bytes.source import Source
from ..outline import StoredTensor

_FIRST_CHUNK_BYTES, _CHUNK_BYTES = 1 << 10, 1 << 16
BYTES_PER_STEP = 12
"""Of the text of numbers, that are read."""

_DECODER = msgspec.json.Decoder(list[int])
_GOOD = re.compile(rb"(?:[ \t\n\r]*(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])[ \t\n\r]*,)*[ \t\n\r]*")


class ArrayPart(NamedTuple):
    """Some of an array's bytes, and the offset behind their text; for the last ones, that behind the array's `]`."""

    values: bytes
    end: int
    last: bool


def runs(source: Source, start: int) -> Iterator[ArrayPart]:
    """The bytes of the array whose `[` is at `start`."""
    begin, text, first, chunk_bytes = start + 1, b"", True, _FIRST_CHUNK_BYTES
    while True:
        more = source.read_some(begin + len(text), chunk_bytes)
        chunk_bytes = min(2 * chunk_bytes, _CHUNK_BYTES)  # small at first, for files of many small tensors
        if not more:
            raise RecordFormatError(
                f"{source.path}: truncated within bytes, at byte {begin + len(text)}; save or fetch it again"
            )
        text += more
        stop = text.find(b"]")
        last = stop >= 0
        stop = stop if last else text.rfind(b",")
        if stop < 0:
            if len(text) > _CHUNK_BYTES:
                raise _no_byte(source, text, begin)
            continue
        source.budget.take(0, 10 + stop / BYTES_PER_STEP)
        values = bytes_of(text[:stop])
        if values is None or not (values or (first and last)):
            raise _no_byte(source, text, begin)
        yield ArrayPart(values, begin + stop + 1, last)
        if last:
            return
        begin, text, first = begin + stop + 1, text[stop + 1 :], False


def bytes_of(text: bytes) -> bytes | None:
    """The bytes whose numbers the text lists; None if it lists something else."""
    if b"-" in text:  # of which -0 is a number
        return None
    try:
        return bytes(_DECODER.decode(b"[" + text + b"]"))
    except (msgspec.MsgspecError, ValueError):
        return None


def _no_byte(source: Source, text: bytes, begin: int) -> RecordFormatError:
    good = _GOOD.match(text)
    place = good.end() if good else 0
    return RecordFormatError(
        f"{source.path}: byte {begin + place}: expected a number from 0 to 255, got {text[place : place + 20]!r}"
    )


class Numbers:
    """Reads the arrays of bytes in a text; keeps its place, so that reading forward takes one pass."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._start = -1
        self._runs: Iterator[ArrayPart] = iter(())
        self._values, self._begin = b"", 0

    def read_into(self, start: int, begin: int, into: memoryview) -> None:
        """Fill `into` with the bytes from index `begin` on of the array at `start`; several threads may."""
        with self._lock:
            if start != self._start or begin < self._begin:
                self._start, self._runs = start, runs(self._source, start)
                self._values, self._begin = b"", 0
            while into:
                skipped = begin - self._begin
                piece = self._values[skipped : skipped + len(into)]
                into[: len(piece)] = piece
                into, begin = into[len(piece) :], begin + len(piece)
                if into:
                    self._advance()

    def _advance(self) -> None:
        begin = self._begin + len(self._values)
        try:
            found = next(self._runs, None)
        except BaseException:
            self._start = -1  # the iterator has ended: begin anew next time
            raise
        if found is None:
            self._start = -1
            raise RecordFormatError(f"{self._source.path}: an array of bytes became shorter since the file was opened")
        self._values, self._begin = found.values, begin


@dataclass(slots=True, unsafe_hash=True)
class TextTensor(StoredTensor):
    """A tensor whose bytes are written as an array of numbers, its `[` at `start`; `numbers` reads them."""

    numbers: Numbers = field(kw_only=True)

    @property
    def sequential(self) -> bool:
        """See `StoredTensor`: a place within the array is found by reading what lies before."""
        return True

    def read_into(self, begin: int, into: memoryview) -> None:
        self.numbers.read_into(self.start, begin, into)
