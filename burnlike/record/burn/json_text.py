"""JSON: records as text with field names, pretty or gzipped, as Burn 0.21 writes them. Imports no torch."""

import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ...errors import RecordFormatError
from ..bytes.source import Source
from ..outline import Outline, Payload, Segment, StoredTensor, TensorEntry
from .envelope import EnvelopeFormat, artifact_of, outline_of_artifact, pieces_of
from .json_reader import ArrayPart, JsonReader, runs
from .record_tree import Blob

_INDENT = 2


@dataclass(frozen=True)
class JsonText(EnvelopeFormat):
    """JSON with names; a `pretty` text has each value on a line of its own."""

    pretty: bool

    def segments(self, outline: Outline) -> Iterator[Segment]:
        tree = artifact_of(outline, self.recorder, None, finite=True)

        def encode(tree: Any) -> bytes:
            text = msgspec.json.encode(tree)
            return msgspec.json.format(text, indent=_INDENT) if self.pretty else text

        indent = -1
        for piece in pieces_of(tree, outline, encode, number=lambda it: msgspec.Raw(float_text(it).encode())):
            if isinstance(piece, TensorEntry):
                yield Payload(piece.name, indent)
            else:
                yield piece
                line = piece[piece.rfind(b"\n") + 1 :]
                indent = len(line) - len(line.lstrip()) if self.pretty else -1

    def read(self, source: Source, layout: object = None) -> Outline:
        numbers = Numbers(source)

        def make(blob: Blob, name: str, dtype: str, shape: tuple[int, ...], stored_as: str) -> TextTensor:
            return TextTensor(name, dtype, shape, source, blob.start, stored_as, numbers=numbers)

        return outline_of_artifact(JsonReader(source).read(), source, self.name, make)


def float_text(value: float) -> str:
    """A finite float as serde_json writes it since 1.0.147: the shortest digits that give it back.

    Exponents stand where the point would be more than 16 digits behind the first digit or more than 5 before it.
    """
    assert math.isfinite(value)
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    mantissa, _, exponent_text = f"{abs(value)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent_text or 0) - (len(whole + fraction) - len(digits))  # behind the first so many
    digits = digits.rstrip("0")
    if not digits:
        return f"{sign}0.0"
    if len(digits) <= point <= 16:
        return f"{sign}{digits.ljust(point, '0')}.0"
    if 0 < point <= 16:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -5 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    exponent = f"e{point - 1:+d}"
    return f"{sign}{digits}{exponent}" if len(digits) == 1 else f"{sign}{digits[0]}.{digits[1:]}{exponent}"


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


_FILE = "burn_core::record::file::{}FileRecorder"
PRETTY_JSON = JsonText("PrettyJson", ".json", False, _FILE.format("PrettyJson"), True)
JSON_GZ = JsonText("JsonGz", ".json.gz", True, _FILE.format("JsonGz"), False)
